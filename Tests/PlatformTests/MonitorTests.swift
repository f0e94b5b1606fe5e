// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Platform
import Testing

@Suite struct MonitorTests {
    @Test func aWaiterSeesTheUpdateOfAnotherThread() throws {
        let monitor = Monitor(0)
        let thread = try Thread(name: "counter") {
            for _ in 0..<1000 { monitor.update { $0 += 1 } }
        }
        #expect(monitor.wait(timeout: 30) { $0 == 1000 ? $0 : nil } == 1000)
        thread.join()
    }

    @Test func waitingEndsWithTheTimeout() {
        #expect(Monitor(0).wait(timeout: 0.01) { $0 == 1 ? true : nil } == nil)
    }
}
