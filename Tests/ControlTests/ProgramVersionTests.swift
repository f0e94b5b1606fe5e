// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Control
import Testing

@Suite struct ProgramVersionTests {
    @Test(arguments: [
        ("0.1.0", "0.1.1"), ("0.9", "0.10"), ("moorage 0.1.0", "0.2"), ("1.2.3-rc1", "1.2.4"), ("unknown", "0.0.1"),
        ("0.1", "1"),
    ])
    func theOlderIsLess(older: String, newer: String) {
        #expect(ProgramVersion(older) < ProgramVersion(newer))
        #expect(!(ProgramVersion(newer) < ProgramVersion(older)))
    }

    @Test func whatIsLeftOutCountsAsZero() {
        #expect(ProgramVersion("1.2") == ProgramVersion("moorage 1.2.0"))
        #expect(ProgramVersion("") == ProgramVersion("0"))
    }
}
