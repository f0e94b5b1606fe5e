// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Glibc
import Platform
import Testing

@Suite struct ProcessorSecondsTests {
    @Test func onlyWorkTakesThem() {
        let start = processorSeconds()
        usleep(300_000)
        let rested = processorSeconds()
        // Whatever else the machine does: this thread slept.
        #expect(rested - start < 0.1)
        var sum: UInt64 = 0
        let end = monotonicSeconds() + 30
        while processorSeconds() - rested < 0.02, monotonicSeconds() < end { sum &+= UInt64(monotonicSeconds() * 1e9) }
        #expect(processorSeconds() - rested >= 0.02 && sum > 0)
    }
}
