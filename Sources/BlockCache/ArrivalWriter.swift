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
        case store(BlockFetch, ArrivalBuffer)
        case end(BlockFetch, Result<Void, StoreError>)
    }

    private struct State {
        var jobs: [Job] = []
        /// Buffers nobody uses, kept for the next arrival.
        var spare: [ArrivalBuffer] = []
        /// Buffers being filled, or waiting to be stored.
        var used = 0
        var isStopping = false
        var hasStopped = false
    }

    /// How many buffers may be in use before the transfer thread waits for the disk.
    private static let limit = 64
    private static let spareLimit = 8

    private let state = Monitor(State())

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
        let found = state.wait { state -> ArrivalBuffer? in
            // With nothing to store, waiting would be for buffers that only the waiting thread hands over.
            guard state.used < Self.limit || state.jobs.isEmpty else { return nil }
            state.used += 1
            return state.spare.popLast() ?? ArrivalBuffer()
        }
        return found ?? ArrivalBuffer()
    }

    /// Has a job done after all that were added before; by the caller when the thread has ended.
    func add(_ job: Job) {
        let hasStopped = state.update { state in
            if !state.hasStopped { state.jobs.append(job) }
            return state.hasStopped
        }
        if hasStopped { perform(job) }
    }

    /// Lets the thread end when it has done what it was given.
    func stop() {
        state.update { $0.isStopping = true }
    }

    private func run() {
        while let jobs = next() {
            for job in jobs { perform(job) }
        }
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
        case .store(let fetch, let buffer):
            fetch.store(buffer)
            giveBack(buffer)
        case .end(let fetch, let result): fetch.end(result)
        }
    }

    private func giveBack(_ buffer: ArrivalBuffer) {
        buffer.count = 0
        state.update { state in
            state.used -= 1
            if state.spare.count < Self.spareLimit { state.spare.append(buffer) }
        }
    }
}

/// Bytes of one fetch that follow each other; used by one thread at a time.
final class ArrivalBuffer: @unchecked Sendable {
    /// The most bytes it takes: a large write costs less a byte than a small one, and this still fits a core's cache.
    static let capacity = 256 << 10

    private let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 4096)
    /// Where the first byte belongs in the object.
    var offset: Int64 = 0
    var count = 0

    deinit {
        memory.deallocate()
    }

    var isFull: Bool { count == Self.capacity }
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[..<count]) }

    /// Takes as many bytes as there is room for; returns how many.
    func append(_ bytes: UnsafeRawBufferPointer) -> Int {
        let taken = min(bytes.count, Self.capacity - count)
        UnsafeMutableRawBufferPointer(rebasing: memory[count..<count + taken])
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<taken]))
        count += taken
        return taken
    }
}
