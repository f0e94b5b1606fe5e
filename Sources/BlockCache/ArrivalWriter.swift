// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import ObjectStore
internal import Platform

/// The thread that checks and stores what fetches bring, so that the transfer thread only takes it from the sockets.
///
/// A thread of its own, as one thread for both is what limits a fast line. It
/// works in the order of arrival, in pieces as large as what came in one go:
/// when it falls behind they grow, up to a buffer's length, and cost less each.
final class ArrivalWriter: Sendable {
    /// What is to be done for a fetch, in order.
    enum Job {
        case store(BlockFetch, [ArrivalBuffer])
        case end(BlockFetch, Result<Void, StoreError>)
    }

    private struct State {
        var jobs: [Job] = []
        /// Buffers being filled, or waiting to be stored.
        var used = 0
        var isStopping = false
        var hasStopped = false
    }

    /// How many buffers may be in use before the transfer thread waits for the disk.
    private static let limit = 64
    /// With more than so many the disk is behind.
    private static let backlog = 48
    /// How many are put into a file at once.
    private static let batch = 8

    private let state = Monitor(State())
    private let memory = ArrivalMemory()
    let recent = RecentArrivals()

    /// Starts the thread, which runs until ``stop()``; without one, callers do their jobs themselves.
    init(startsThread: Bool) {
        do throws(SystemError) {
            if startsThread {
                try Thread.detached(name: "store") { [self] in run() }
                return
            }
        } catch {
            Log.warning("cache", "no thread to store what arrives: \(error)")
        }
        state.update { $0.hasStopped = true }
    }

    /// A buffer to fill; waits for one while the disk is far behind.
    func buffer() -> ArrivalBuffer {
        _ = state.wait { state -> Bool? in
            // With nothing to store, waiting would be for buffers that only the waiting thread hands over.
            guard state.used < Self.limit || state.jobs.isEmpty else { return nil }
            state.used += 1
            return true
        }
        return ArrivalBuffer(memory)
    }

    /// Whether more waits to be stored than a disk that keeps up lets gather.
    var isBehind: Bool { state.inspect { $0.used > Self.backlog } }

    /// Has a job done after all that were added before; by the caller when the thread has ended.
    func add(_ job: Job) {
        let hasStopped = state.update { state in
            if !state.hasStopped { state.jobs.append(job) }
            return state.hasStopped
        }
        if hasStopped { perform(job) }
    }

    /// Lets go of what nobody came for; to be called every few seconds.
    func expire() {
        recent.expire()
        memory.trim()
    }

    /// Lets the thread end when it has done what it was given.
    func stop() {
        state.update { $0.isStopping = true }
    }

    private func run() {
        while let jobs = next() {
            for job in Self.gathered(jobs) { perform(job) }
        }
    }

    /// The same jobs, those of a fetch in their order, with fewer and larger ones where bytes follow each other.
    static func gathered(_ jobs: [Job]) -> [Job] {
        var result: [Job] = []
        var places: [ObjectIdentifier: Int] = [:]
        for job in jobs {
            guard case .store(let fetch, let buffers) = job else {
                result.append(job)
                continue
            }
            if let place = places[ObjectIdentifier(fetch)], case .store(_, let before) = result[place],
                before.count + buffers.count <= batch, before.last?.range.upper == buffers.first?.offset
            {
                result[place] = .store(fetch, before + buffers)
            } else {
                places[ObjectIdentifier(fetch)] = result.count
                result.append(job)
            }
        }
        return result
    }

    private func next() -> [Job]? {
        let jobs = state.wait { state -> [Job]? in
            guard state.jobs.isEmpty else {
                defer { state.jobs = [] }
                return state.jobs
            }
            if state.isStopping { state.hasStopped = true }
            return state.isStopping ? [] : nil
        }
        return jobs?.isEmpty == false ? jobs : nil
    }

    private func perform(_ job: Job) {
        switch job {
        case .store(let fetch, let buffers):
            fetch.store(buffers)
            state.update { $0.used -= buffers.count }
        case .end(let fetch, let result): fetch.end(result)
        }
    }
}
