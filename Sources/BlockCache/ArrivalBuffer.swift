// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base

/// Bytes of one fetch that follow each other; filled by one thread, and not changed once they are handed on.
final class ArrivalBuffer: @unchecked Sendable {
    /// The most bytes it takes: a large write costs less a byte than a small one, and this still fits a core's cache.
    static let capacity = 256 << 10

    private let pool: ArrivalMemory
    private let piece: ArrivalMemory.Piece
    private var memory: UnsafeMutableRawBufferPointer { piece.memory }
    /// Where the first byte belongs in the object.
    private(set) var offset: Int64
    private(set) var count = 0
    /// How many of its bytes have been read from memory; guarded by the object's monitor.
    var served: Int64 = 0
    /// Its place among those that readers find here for a while, so that the kernel need not keep them too; set once, by the
    /// writer, before others come to see the buffer.
    var place: RecentArrivals.Place?

    init(_ pool: ArrivalMemory, offset: Int64 = 0) {
        self.pool = pool
        piece = pool.take()
        self.offset = offset
    }

    deinit {
        pool.giveBack(piece)
    }

    var range: ByteRange { ByteRange(offset: offset, count: Int64(count)) }
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[..<count]) }
    /// Buffers end at multiples of their capacity, so that those behind the first are aligned.
    var isFull: Bool { count == room }

    private var room: Int { Self.capacity - Int(offset % Int64(Self.capacity)) }

    /// Whether all of it may be written past the kernel's memory.
    var isDirect: Bool { place != nil && DirectFile.takes(bytes, at: offset) }

    /// Its bytes behind the last end of a page of the disk.
    var partOfPage: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: bytes.suffix(min(count, Int(range.upper % Int64(DirectFile.alignment)))))
    }

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
