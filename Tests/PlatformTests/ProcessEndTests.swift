// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Glibc
import Platform
import Testing

@Suite struct ProcessEndTests {
    @Test(arguments: [
        (Int32(0), "ended with status 0"),
        (3 << 8, "ended with status 3"),
        (255 << 8, "ended with status 255"),
        (SIGKILL, "was ended by SIGKILL (9)"),
        (SIGBUS, "was ended by SIGBUS (7)"),
        (SIGSEGV | 0x80, "was ended by SIGSEGV (11) and left a core dump"),
        (40, "was ended by signal 40"),
    ])
    func aStatusSaysHowItEnded(status: Int32, text: String) {
        #expect(ProcessEnd(waitStatus: status).description == text)
    }

    private func start(_ script: String) throws -> Int32 {
        try ChildProcess.spawnDetached("/bin/sh", ["-c", script])
    }

    @Test func theEndOfAChildIsWaitedFor() throws {
        #expect(ProcessEnd.of(try start("exit 7"), within: 20) == .exited(7))
        #expect(ProcessEnd.of(try start("kill -KILL $$"), within: 20) == .signalled(SIGKILL, coreDumped: false))
    }

    @Test func oneThatDoesNotEndIsNotWaitedForForEver() throws {
        let child = try start("exec sleep 60")
        #expect(ProcessEnd.of(child, within: 0.05) == nil)
        kill(child, SIGKILL)
        #expect(ProcessEnd.of(child, within: 20) == .signalled(SIGKILL, coreDumped: false))
        #expect(ProcessEnd.of(child, within: 20) == nil, "it is no child any more")
    }
}
