// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// The signals that a program which holds a terminal answers to, taken by a thread (sigwait(3)).
struct WatchSignals {
    enum Signal: Sendable {
        case resized
        /// Ctrl-Z: the process is to stop once it has given the terminal back.
        case suspended
        case ended
    }

    private let report: @Sendable (Signal) -> Void
    private var set = sigset_t()

    /// Blocks the signals in this thread and in those that it starts: call it before there are any.
    init(report: @escaping @Sendable (Signal) -> Void) {
        self.report = report
        sigemptyset(&set)
        for signal in [SIGWINCH, SIGTSTP, SIGINT, SIGTERM, SIGHUP] { sigaddset(&set, signal) }
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    func start() throws(CommandFailure) {
        let (set, report) = (set, report)
        do throws(SystemError) {
            try Thread.detached(name: "signals", stackSize: 128 << 10) {
                var set = set
                var number: Int32 = 0
                while sigwait(&set, &number) == 0 {
                    switch number {
                    case SIGWINCH: report(.resized)
                    case SIGTSTP: report(.suspended)
                    default: report(.ended)
                    }
                }
            }
        } catch {
            throw CommandFailure(error.description)
        }
    }
}
