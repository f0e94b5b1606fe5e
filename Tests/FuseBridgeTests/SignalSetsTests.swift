// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Glibc
import Testing

@testable import FuseBridge

@Suite struct SignalSetsTests {
    private func sets(
        own: [Int32] = [],
        shared: [Int32] = [],
        blocked: [Int32] = [],
        ignored: [Int32] = [],
        caught: [Int32] = []
    ) throws -> SignalSets {
        func hexadecimal(_ signals: [Int32]) -> String {
            let text = String(signals.reduce(UInt64(0)) { $0 | 1 << UInt64($1 - 1) }, radix: 16)
            return String(repeating: "0", count: 16 - text.count) + text
        }
        let status = """
            Name:\tcat
            Umask:\t0022
            Pid:\t17
            SigQ:\t0/95000
            SigPnd:\t\(hexadecimal(own))
            ShdPnd:\t\(hexadecimal(shared))
            SigBlk:\t\(hexadecimal(blocked))
            SigIgn:\t\(hexadecimal(ignored))
            SigCgt:\t\(hexadecimal(caught))
            CapInh:\t0000000000000000

            """
        return try #require(SignalSets(status: status))
    }

    @Test(arguments: [SIGKILL, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM, SIGUSR1, 64])
    func aSignalThatKillsIsFatal(signal: Int32) throws {
        #expect(try sets(own: [signal]).areFatal)
        #expect(try sets(shared: [signal]).areFatal)
        #expect(try sets(shared: [SIGCHLD, signal], caught: [SIGCHLD]).areFatal)
    }

    @Test func whatIsHandledIgnoredBlockedOrHarmlessIsNot() throws {
        #expect(try !sets().areFatal)
        #expect(try !sets(shared: [SIGALRM], caught: [SIGALRM]).areFatal)
        #expect(try !sets(shared: [SIGHUP], ignored: [SIGHUP]).areFatal)
        #expect(try !sets(own: [SIGTERM], blocked: [SIGTERM]).areFatal)
        #expect(try !sets(shared: [SIGCHLD, SIGWINCH, SIGURG, SIGCONT, SIGTSTP, SIGSTOP]).areFatal)
    }

    @Test func aHandlerOfAnotherSignalDoesNotSave() throws {
        #expect(try sets(shared: [SIGINT], blocked: [SIGUSR1], ignored: [SIGHUP], caught: [SIGTERM]).areFatal)
        #expect(try sets(own: [SIGKILL], shared: [SIGTERM], caught: [SIGTERM]).areFatal)
    }

    @Test func nothingIsSaidOfAnUnreadableStatus() {
        #expect(SignalSets(status: "") == nil)
        #expect(SignalSets(status: "SigPnd:\t0000000000000100\n") == nil)
        #expect(SignalSets(thread: getpid())?.areFatal == false)
        #expect(SignalSets(thread: -1) == nil)
    }
}
