// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import Glibc
internal import Journal
internal import Platform
internal import Synchronization

/// What is known of the bytes of a staging file: who writes a file from its beginning to its end leaves nothing to be
/// read again when it is closed.
final class StagedChecksums: Sendable {
    private struct State {
        var list = ChecksumList()
        /// Where the last write ended.
        var end: Int64 = 0
    }

    private let state = Lock(State())
    /// How many changes of the file have begun.
    private let changes = Atomic<Int>(0)

    /// The bytes that a checksum takes at a time.
    private static let bufferSize = 64 << 10

    var list: ChecksumList { state.withLock { $0.list } }

    /// Takes over what the journal has of a file that is opened again.
    func replace(by list: ChecksumList) {
        state.withLock { $0.list = list }
    }

    /// A change of the file begins.
    func begin() {
        changes.wrappingAdd(1, ordering: .relaxed)
    }

    /// A range was changed, or may have been.
    func forget(_ range: ByteRange) {
        state.withLock { $0.list.forget(range) }
    }

    /// Notes a write, and returns the blocks that it has filled: those that end in it, when it goes on where the one
    /// before ended or covers them.
    func noteWrite(_ range: ByteRange, in map: ContentMap) -> Filled? {
        let size = ChecksumList.blockSize
        return state.withLock { state in
            state.list.forget(range)
            let isContinued = state.end == range.lower
            state.end = range.upper
            let first = isContinued ? range.lower / size : (range.lower + size - 1) / size
            guard first < range.upper / size else { return nil }
            let blocks = (first..<range.upper / size).filter { map.extents.contains(ChecksumList.range(of: $0)) }
            return blocks.isEmpty ? nil : Filled(blocks: blocks, changes: changes.load(ordering: .relaxed))
        }
    }

    struct Filled {
        let blocks: [Int64]
        fileprivate let changes: Int
    }

    /// Takes the checksums of blocks that a write has filled, while they are near the processor.
    func take(_ filled: Filled, from file: borrowing FileDescriptor, _ settle: (() -> Void) -> Void) {
        let memory = moorage_take_thread_buffer(Self.bufferSize)
        guard let memory else { return }
        defer { moorage_return_thread_buffer(memory) }
        let buffer = UnsafeMutableRawBufferPointer(start: memory, count: Self.bufferSize)
        for block in filled.blocks {
            let parts = [ChecksumList.range(of: block)]
            guard let checksum = try? ChecksumList.checksum(of: parts, in: file.raw, buffer) else { return }
            settle {
                guard changes.load(ordering: .relaxed) == filled.changes else { return }
                state.withLock { $0.list.set(block, parts, checksum) }
            }
        }
    }
}
