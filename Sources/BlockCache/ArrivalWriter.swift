// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import ObjectStore
internal import Platform

/// The threads that check and store what fetches bring, so that the transfer thread only takes it from the sockets.
///
/// Threads of their own, as one for all of it is what limits a fast line; two, so that one checks while the other waits
/// for the disk. Each fetch's jobs are done in the order of arrival and never two at once, in pieces as large as what
/// came in one go: when the threads fall behind they grow, up to a few buffers' length, and cost less each.
final class ArrivalWriter: Sendable {
    /// What is to be done for a fetch, in order.
    enum Job {
        case store(BlockFetch, [ArrivalBuffer])
        case end(BlockFetch, Result<Void, StoreError>)

        var fetch: ObjectIdentifier {
            switch self {
            case .store(let fetch, _), .end(let fetch, _): ObjectIdentifier(fetch)
            }
        }
    }

    private struct State {
        var jobs: [Job] = []
        /// Buffers being filled, or waiting to be stored.
        var used = 0
        /// The fetches that a thread does a job of.
        var busy: Set<ObjectIdentifier> = []
        var isStopping = false
        /// How many run.
        var threads = 0
    }

    /// One to check and one to wait for the disk: more would only take turns.
    private static let threads = 2
    /// How many buffers may be in use before the transfer thread waits for the disk.
    private static let limit = 64
    /// With more than so many the disk is behind, and the kernel's memory takes what it does not: early enough for the
    /// transfer thread to wait for it seldom.
    private static let backlog = 48
    /// How many are put into a file at once.
    private static let batch = 8

    private let state = Monitor(State())
    private let memory = ArrivalMemory()
    let recent = RecentArrivals()

    /// Starts the threads, which run until ``stop()``; without any, callers do their jobs themselves.
    init(startsThreads: Bool) {
        guard startsThreads else { return }
        for _ in 0..<Self.threads {
            // Counted before it runs, so that it may end at once.
            state.update { $0.threads += 1 }
            do throws(SystemError) {
                try Thread.detached(name: "store") { [self] in run() }
            } catch {
                state.update { $0.threads -= 1 }
                Log.warning("cache", "no thread to store what arrives: \(error)")
            }
        }
    }

    /// A buffer to fill; waits for one while the disk is far behind.
    func buffer() -> ArrivalBuffer {
        _ = state.wait { state -> Bool? in
            // With nothing to store, waiting would be for buffers that only the waiting thread hands over.
            guard state.used < Self.limit || (state.jobs.isEmpty && state.busy.isEmpty) else { return nil }
            state.used += 1
            return true
        }
        return ArrivalBuffer(memory)
    }

    /// Whether more waits to be stored than a disk that keeps up lets gather.
    var isBehind: Bool { state.inspect { $0.used > Self.backlog } }

    /// Has a job done after all of its fetch that were added before; by the caller when the threads have ended.
    func add(_ job: Job) {
        let (hasThreads, isBusy) = state.inspect { state in
            if state.threads > 0 { state.jobs.append(job) }
            return (state.threads > 0, state.busy.contains(job.fetch))
        }
        guard hasThreads else { return perform(job) }
        // Who does its last job does this one next.
        if !isBusy { state.update { _ in } }
    }

    /// Lets go of what nobody came for; to be called every few seconds.
    func expire() {
        recent.expire()
        memory.trim()
    }

    /// Lets the threads end when they have done what they were given.
    func stop() {
        state.update { $0.isStopping = true }
    }

    private func run() {
        while let job = next() { perform(job) }
    }

    private func next() -> Job? {
        let job = state.wait { state -> Job?? in
            if let job = Self.take(from: &state.jobs, except: state.busy) {
                state.busy.insert(job.fetch)
                return .some(job)
            }
            // What is left while others are busy is theirs, or becomes ours when they are done.
            guard state.isStopping, state.jobs.isEmpty else { return nil }
            state.threads -= 1
            return .some(nil)
        }
        return job ?? nil
    }

    /// Takes out the first job of a fetch that nobody does one of, with what follows its bytes in one.
    static func take(from jobs: inout [Job], except busy: Set<ObjectIdentifier>) -> Job? {
        guard let first = jobs.firstIndex(where: { !busy.contains($0.fetch) }) else { return nil }
        let job = jobs.remove(at: first)
        guard case .store(let fetch, var buffers) = job else { return job }
        var index = first
        while index < jobs.count {
            guard jobs[index].fetch == ObjectIdentifier(fetch) else {
                index += 1
                continue
            }
            guard case .store(_, let next) = jobs[index], buffers.count + next.count <= batch,
                buffers.last?.range.upper == next.first?.offset
            else { break }
            buffers += next
            jobs.remove(at: index)
        }
        return .store(fetch, buffers)
    }

    private func perform(_ job: Job) {
        var count = 0
        switch job {
        case .store(let fetch, let buffers):
            count = buffers.count
            fetch.store(buffers)
        case .end(let fetch, let result): fetch.end(result)
        }
        // Of the other thread nothing is wanted: had it time, only jobs of this fetch could be left, which come next here.
        let isAwaited = state.inspect { state in
            defer { state.used -= count }
            state.busy.remove(job.fetch)
            return state.used >= Self.limit || state.isStopping
        }
        if isAwaited { state.update { _ in } }
    }
}
