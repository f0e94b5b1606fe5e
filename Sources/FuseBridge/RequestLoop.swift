// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CFuse
internal import Glibc
internal import Platform
internal import Synchronization

/// The threads that take the kernel's requests and answer them.
///
/// In place of `fuse_session_loop_mt`, which has ten threads whatever they wait for. Ten are as many as work best here too:
/// while several programs read as fast as they can none of them sleeps in read(2), so that the kernel need wake nobody for
/// a request. Those that wait for the remote are replaced by others, and those that are not needed any more then sleep on
/// a stack of which the last is taken first.
final class RequestLoop: Sendable {
    private final class Worker: Sendable {
        let thread = pthread_self()
        let isReceiving = Atomic<Bool>(false)
        let isCalled = Monitor(false)
    }

    private struct State {
        var threads: LoopThreads
        var workers: [Worker] = []
        /// Those that sleep until they are needed, the last first.
        var parked: [Worker] = []
        /// Requests that were answered.
        var answered = 0
        /// Somebody looks every few milliseconds whether the threads get on.
        var isWatched = false
        var hasWatch = false
        /// Why requests cannot be taken any more; 0 at an unmount.
        var failure: Int32 = 0
    }

    /// How many threads take one request after another.
    private static let enough = 10
    /// The time between two looks whether threads get on, in microseconds, and how many quiet ones end the watch.
    private static let watchInterval: UInt32 = 5000
    private static let quietLooks = 20
    /// How many more are kept; each has an idle buffer for a request.
    private static let parkedLimit = 16

    // A session outlives the loop; libfuse lets threads take and answer requests of one at the same time.
    nonisolated(unsafe) private let session: OpaquePointer
    private let state: Monitor<State>
    private let onAgreement: @Sendable () -> Void
    private let hasAgreed = Atomic<Bool>(false)

    /// Up to `maximumThreads` requests may be worked on at once; more wait in the kernel.
    ///
    /// `onAgreement` is called once, when the first of them was answered: by that the kernel and libfuse agree on the terms
    /// (FUSE_INIT), and only then is what the kernel had set for the mount before it of no effect any more.
    init(_ session: OpaquePointer, maximumThreads: Int, onAgreement: @escaping @Sendable () -> Void) {
        self.session = session
        self.onAgreement = onAgreement
        let threads = LoopThreads(enough: Self.enough, parkedLimit: Self.parkedLimit, limit: maximumThreads)
        state = Monitor(State(threads: threads))
    }

    /// Serves until the file system is unmounted or the session made to exit; returns when every request was answered.
    ///
    /// Returns why it ended, 0 at an unmount, else an errno.
    func run() -> Int32 {
        state.inspect { $0.threads.begin() }
        if let error = start() { return error.code }
        return state.wait { $0.threads.count == 0 ? $0.failure : nil } ?? 0
    }

    /// Has threads that wait for requests look whether the session has ended.
    ///
    /// The action of `signal` must not have read(2) restarted. A thread that was just about to wait needs it again.
    func wake(with signal: Int32) {
        state.inspect { state in
            for worker in state.workers where worker.isReceiving.load(ordering: .acquiring) {
                pthread_kill(worker.thread, signal)
            }
        }
    }

    private func start() -> SystemError? {
        do throws(SystemError) {
            try Thread.detached(name: "requests", stackSize: 8 << 20) { [self] in work() }
            return nil
        } catch {
            return error
        }
    }

    /// To be called by a thread that works on a request before it waits, and when it has.
    func noteWait(_ isBeginning: Bool) {
        if isBeginning { substitute { $0.waits() } } else { state.inspect { $0.threads.resumes() } }
    }

    // MARK: The watch

    private func watch() {
        let isFirst = state.update { state in
            defer { state.hasWatch = true }
            return !state.hasWatch
        }
        guard isFirst else { return }
        do throws(SystemError) {
            try Thread.detached(name: "watch") { [self] in
                while state.wait(until: { $0.threads.isEnding ? false : $0.isWatched ? true : nil }) == true {
                    lookWhileBusy()
                }
            }
        } catch {
            state.inspect { ($0.hasWatch, $0.isWatched) = (false, false) }
            Log.warning("mount", "no thread to watch those that serve requests: \(error)")
        }
    }

    private func lookWhileBusy() {
        var quiet = 0
        var seen = -1
        while quiet < Self.quietLooks, !state.inspect({ $0.threads.isEnding }) {
            usleep(Self.watchInterval)
            let (stands, isQuiet) = state.inspect { state in
                let isBusy = state.threads.receiving == 0
                defer { seen = state.answered }
                return (isBusy && state.answered == seen, !isBusy)
            }
            if stands { substitute { $0.stands() } }
            quiet = isQuiet ? quiet + 1 : 0
        }
        state.inspect { $0.isWatched = $0.threads.receiving == 0 }
    }

    // MARK: A thread

    private func work() {
        var buffer = fuse_buf()
        defer { free(buffer.mem) }
        let worker = Worker()
        state.inspect { $0.workers.append(worker) }
        while let count = receive(worker, &buffer) {
            guard count > 0 else { return sawTheEnd(worker, -count) }
            substitute { $0.took() }
            fuse_session_process_buf(session, &buffer)
            if !hasAgreed.load(ordering: .relaxed), !hasAgreed.exchange(true, ordering: .relaxed) { onAgreement() }
            guard goesOn(worker) else { return }
        }
        sawTheEnd(worker, 0)
    }

    /// The length of a request, 0 at an unmount, else a negative errno; nil when the session has ended.
    private func receive(_ worker: Worker, _ buffer: inout fuse_buf) -> Int32? {
        while fuse_session_exited(session) == 0 {
            worker.isReceiving.store(true, ordering: .releasing)
            let count = fuse_session_receive_buf(session, &buffer)
            worker.isReceiving.store(false, ordering: .releasing)
            if count != -EINTR { return count }
        }
        return nil
    }

    /// Sees to it that another thread takes the next request where one is to.
    private func substitute(_ decide: (inout LoopThreads) -> LoopThreads.Substitute) {
        let (substitute, next, isUnwatched) = state.inspect { state in
            let substitute = decide(&state.threads)
            let isUnwatched = state.threads.receiving == 0 && !state.isWatched
            if isUnwatched { state.isWatched = true }
            return (substitute, substitute == .parked ? state.parked.popLast() : nil, isUnwatched)
        }
        if isUnwatched { watch() }
        next?.isCalled.update { $0 = true }
        guard substitute == .new, let error = start() else { return }
        // Who waits for the end of all threads may be waiting for this one.
        let isAlone = state.update { state in
            state.threads.couldNotStart()
            let isAlone = state.threads.receiving == 0 && !state.isWatched
            if isAlone { state.isWatched = true }
            return isAlone
        }
        if isAlone { watch() }
        Log.debug("mount", "no further thread for requests: \(error)")
    }

    /// Waits while the thread is not needed; false when it shall end.
    private func goesOn(_ worker: Worker) -> Bool {
        let next = state.inspect { state in
            state.answered += 1
            let next = state.threads.answered()
            if next == .park { state.parked.append(worker) }
            if next == .end { state.workers.removeAll { $0 === worker } }
            return next
        }
        if next == .park {
            worker.isCalled.wait { isCalled -> Void? in
                defer { isCalled = false }
                return isCalled ? () : nil
            }
        }
        return next != .end
    }

    private func sawTheEnd(_ worker: Worker, _ failure: Int32) {
        if failure != 0 { fuse_session_exit(session) }
        let parked = state.update { state in
            if state.failure == 0 { state.failure = failure }
            state.threads.sawTheEnd()
            state.workers.removeAll { $0 === worker }
            defer { state.parked = [] }
            return state.parked
        }
        for worker in parked { worker.isCalled.update { $0 = true } }
    }
}
