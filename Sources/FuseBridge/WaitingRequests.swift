// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CFuse
internal import Glibc
internal import Platform

/// The kernel's requests whose threads wait for the remote, and the end of those that nobody waits for.
///
/// The kernel tells of the first signal that comes meanwhile, whatever it is (`FUSE_INTERRUPT`), not of the next, and of
/// none during a read with `O_DIRECT`. Answered with EINTR the call would fail with that even where the program's handler
/// asks for restarting (`SA_RESTART`), as with timers, and hardly a program expects it of a file. So only a signal that
/// kills ends a wait, as on other network file systems: a thread looks at the pending signals of those who wait, ten times
/// a second of those who were interrupted and now and then of all others. It sleeps while nobody waits.
final class WaitingRequests: Interruption.Source {
    private struct Waiting {
        let handler: Interruption.Handler
        /// The thread that made the call, by our namespace of processes; 0 when it cannot be seen from there.
        let caller: pid_t
        var isInterrupted = false
        /// It was given up.
        var isTold = false
    }

    private struct State {
        /// By the address of the request; as many as there are threads at most.
        var waiting: [UInt: Waiting] = [:]
        /// The thread that looks is awake.
        var isLooking = false
        /// A request was interrupted and not looked at yet.
        var hasNews = false
        var isEnding = false
        /// What /proc says is of our own namespace.
        var maySeeSignals = false
    }

    private let state = Monitor(State())
    /// Whose threads wait.
    private let loop = Lock<RequestLoop?>(nil)
    /// The time between two looks at those who were interrupted, in seconds.
    private static let interval = 0.1
    /// Every how many looks all are looked at.
    private static let wideInterval = 5

    /// Whether every wait is given up, since the mount ends.
    var isEnding: Bool { state.inspect { $0.isEnding } }

    /// Starts the thread that looks at signals; it ends with ``end()``.
    func start() throws(SystemError) {
        // A /proc of another namespace would tell of others.
        let own = (try? Files.read("/proc/self/stat", limit: 1 << 16)) ?? []
        guard own.starts(with: "\(getpid()) ".utf8) else { return }
        state.inspect { $0.maySeeSignals = true }
        try Thread.detached(name: "interrupts") { [self] in
            while state.wait(until: { $0.isEnding ? false : $0.isLooking ? true : nil }) == true { lookWhileAnyWait() }
        }
    }

    /// Has waits told to those who serve requests, so that others take the next ones.
    func tell(_ loop: RequestLoop?) { self.loop.withLock { $0 = loop } }

    /// Gives up every wait, also those that begin later.
    func end() {
        state.update { state in
            state.isEnding = true
            for waiting in state.waiting.values { waiting.handler.call() }
        }
    }

    func setHandler(_ handler: Interruption.Handler?, of request: UnsafeMutableRawPointer) {
        let raw = fuse_req_t(request)
        let number = UInt(bitPattern: request)
        let loop = loop.withLock { $0 }
        loop?.noteWait(handler != nil)
        guard let handler else {
            fuse_req_interrupt_func(raw, nil, nil)
            return state.inspect { $0.waiting[number] = nil }
        }
        let caller = fuse_req_ctx(raw)?.pointee.pid ?? 0
        let (isEnding, isFirst) = state.inspect { state in
            state.waiting[number] = Waiting(handler: handler, caller: caller)
            defer { state.isLooking = true }
            return (state.isEnding, !state.isLooking)
        }
        if isFirst { state.update { _ in } }
        if isEnding { return handler.call() }
        // Called at once when the request was interrupted before.
        fuse_req_interrupt_func(
            raw,
            { raw, _ in
                guard let raw, let request = Request(raw) else { return }
                request.bridge.requests.noteInterrupted(UnsafeMutableRawPointer(raw))
            },
            nil
        )
    }

    func isGivenUp(_ request: UnsafeMutableRawPointer) -> Bool {
        let (isEnding, maySee) = state.inspect { ($0.isEnding, $0.maySeeSignals) }
        guard !isEnding, maySee, let caller = fuse_req_ctx(fuse_req_t(request))?.pointee.pid, caller != 0 else {
            return isEnding
        }
        return SignalSets(thread: caller)?.areFatal == true
    }

    private func noteInterrupted(_ request: UnsafeMutableRawPointer) {
        state.update { state in
            state.waiting[UInt(bitPattern: request)]?.isInterrupted = true
            state.hasNews = true
        }
    }

    private func lookWhileAnyWait() {
        var round = 0
        while true {
            let isEnding = state.wait(timeout: Self.interval) { $0.isEnding || $0.hasNews ? $0.isEnding : nil }
            if isEnding == true { return }
            round += 1
            let includesAll = round.isMultiple(of: Self.wideInterval)
            let callers = state.inspect { state in
                state.hasNews = false
                if state.waiting.isEmpty { state.isLooking = false }
                return state.waiting.filter { _, one in
                    one.caller != 0 && !one.isTold && (one.isInterrupted || includesAll)
                }
            }
            guard state.inspect({ $0.isLooking }) else { return }
            giveUp(callers.filter { SignalSets(thread: $0.value.caller)?.areFatal == true })
        }
    }

    private func giveUp(_ dying: [UInt: Waiting]) {
        state.inspect { state in
            // A request that was answered meanwhile may have left its place to another.
            for (number, known) in dying where state.waiting[number]?.handler === known.handler {
                known.handler.call()
                state.waiting[number]?.isTold = true
            }
        }
    }
}
