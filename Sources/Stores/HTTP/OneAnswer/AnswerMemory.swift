// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// The memory for answers that the disk does not take, bounded for all files of a store, and what people are told of it.
final class AnswerMemory: Sendable {
    /// A piece of it.
    final class Chunk {
        static let size = 256 << 10
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: Chunk.size, alignment: 4096)
        /// How many of its bytes are there.
        var count = 0

        deinit { bytes.deallocate() }
    }

    private struct State {
        var chunks = 0
        /// The files that are kept in memory.
        var files = 0
        var tell: (@Sendable (SystemError?) -> Void)?
    }

    /// The most chunks of one file: 16 MiB.
    static let mostOfFile = 64
    /// What a file has also when there is no memory for it: to read on, and to compare what comes again.
    static let leastOfFile = 2
    /// The most chunks of all files: 64 MiB.
    private static let most = 256
    private let state = Lock(State())

    /// Has it told why files are kept in memory, and nil once none is; what comes is called on any thread.
    func tell(_ body: @escaping @Sendable (SystemError?) -> Void) { state.withLock { $0.tell = body } }

    /// How many chunks a file with so many may have; some of them are not there yet.
    func share(with count: Int) -> Int {
        let free = state.withLock { Self.most - $0.chunks }
        return max(Self.leastOfFile, min(Self.mostOfFile, count + free))
    }

    func took() { state.withLock { $0.chunks += 1 } }

    func gaveBack(_ count: Int) { state.withLock { $0.chunks -= count } }

    /// The disk does not take a file's bytes.
    func began(_ error: SystemError) {
        // Under the lock, so that what is told last is how it is.
        state.withLock { state in
            state.files += 1
            state.tell?(error)
        }
    }

    /// That file is not kept any more.
    func ended() {
        state.withLock { state in
            state.files -= 1
            if state.files == 0 { state.tell?(nil) }
        }
    }
}
