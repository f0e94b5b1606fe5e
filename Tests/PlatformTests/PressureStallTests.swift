// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Platform
import Testing

@Suite struct PressureStallTests {
    @Test func theTotalOfSomeIsRead() {
        let text = """
            some avg10=0.01 avg60=10.16 avg300=11.10 total=316259034
            full avg10=0.00 avg60=0.00 avg300=0.00 total=7
            """
        #expect(PressureStall.total(in: text) == 316_259_034)
    }

    @Test func whatIsNotThereIsNotKnown() {
        #expect(PressureStall.total(in: "") == nil)
        #expect(PressureStall.total(in: "full avg10=0.00 total=7") == nil)
        #expect(PressureStall.total(in: "some avg10=0.00 total=many") == nil)
        #expect(PressureStall.total(of: "no-such-resource") == nil)
    }
}
