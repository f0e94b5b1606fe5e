// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// Bytes of one fetch that follow each other; filled by one thread, and not changed once they are handed on.
final class ArrivalBuffer: @unchecked Sendable {
    /// The most bytes it takes: a large write costs less a byte than a small one, and this still fits a core's cache.
    static let capacity = 256 << 10

    private let pool: ArrivalMemory
    private let memory: UnsafeMutableRawBufferPointer
    /// Where the first byte belongs in the object.
    private(set) var offset: Int64
    private(set) var count = 0
    /// How many of its bytes have been read from memory; guarded by the object's monitor.
    var served: Int64 = 0
    /// Readers find the bytes here for a while, so that the kernel need not keep them too; the writer's.
    var isKept = false

    init(_ pool: ArrivalMemory, offset: Int64 = 0) {
        self.pool = pool
        memory = pool.take()
        self.offset = offset
    }

    deinit {
        pool.giveBack(memory)
    }

    var range: ByteRange { ByteRange(offset: offset, count: Int64(count)) }
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[..<count]) }
    /// Buffers end at multiples of their capacity, so that those behind the first are aligned.
    var isFull: Bool { count == room }

    private var room: Int { Self.capacity - Int(offset % Int64(Self.capacity)) }

    /// Whether all of it may be written past the kernel's memory.
    var isDirect: Bool { isKept && DirectFile.takes(bytes, at: offset) }

    /// Says where the first byte belongs, before there is one.
    func begin(at offset: Int64) {
        precondition(count == 0, "a buffer is begun once")
        self.offset = offset
    }

    /// Takes as many bytes as there is room for; returns how many.
    func append(_ bytes: UnsafeRawBufferPointer) -> Int {
        let taken = min(bytes.count, room - count)
        UnsafeMutableRawBufferPointer(rebasing: memory[count..<count + taken])
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<taken]))
        count += taken
        return taken
    }

    /// Forgets bytes at its end.
    func cut(to count: Int) { self.count = min(self.count, count) }
}

/// The memory of arrival buffers, kept for the next one: fresh pages cost more than the copy into them.
///
/// Mapped by itself, so that it goes back to the system when nothing arrives any more, whatever else was allocated since.
final class ArrivalMemory: Sendable {
    private struct Piece: @unchecked Sendable {
        let memory: UnsafeMutableRawBufferPointer
    }

    private struct State {
        var spare: [Piece] = []
        /// Whether any was taken since the last look.
        var isInUse = false
    }

    /// As much as fast readers let go of while the next bytes come: 32 MiB.
    private static let spareLimit = 128

    private let state = Lock(State())

    deinit {
        state.withLock { state in
            for piece in state.spare { Self.unmap(piece.memory) }
        }
    }

    func take() -> UnsafeMutableRawBufferPointer {
        let spare = state.withLock { state in
            state.isInUse = true
            return state.spare.popLast()
        }
        return spare?.memory ?? Self.map()
    }

    func giveBack(_ memory: UnsafeMutableRawBufferPointer) {
        let isKept = state.withLock { state in
            guard state.spare.count < Self.spareLimit else { return false }
            state.spare.append(Piece(memory: memory))
            return true
        }
        if !isKept { Self.unmap(memory) }
    }

    /// Gives back to the system what is spare, unless some was taken since this was called last.
    func trim() {
        let unused = state.withLock { state -> [Piece] in
            defer { state.isInUse = false }
            guard !state.isInUse else { return [] }
            defer { state.spare = [] }
            return state.spare
        }
        for piece in unused { Self.unmap(piece.memory) }
    }

    /// How many bytes are kept.
    var spareBytes: Int { state.withLock { $0.spare.count * ArrivalBuffer.capacity } }

    private static func map() -> UnsafeMutableRawBufferPointer {
        let start = mmap(nil, ArrivalBuffer.capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let start, start != MAP_FAILED else { fatalError("no memory for what arrives (errno \(errno))") }
        return UnsafeMutableRawBufferPointer(start: start, count: ArrivalBuffer.capacity)
    }

    private static func unmap(_ memory: UnsafeMutableRawBufferPointer) {
        munmap(memory.baseAddress, memory.count)
    }
}
