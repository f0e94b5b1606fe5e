// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc
internal import Platform

/// The memory of arrival buffers, kept for the next one: fresh pages cost more than the copy into them.
///
/// It comes from the system in slabs of a huge page each, which is one fault instead of hundreds, and as many fewer pages
/// to look up and to hold for each write to a disk or to the kernel. A slab is mapped when no piece is spare, so there are
/// never more of them than what was in use at once fills; all that are free go back when nothing arrives any more,
/// whatever else was allocated since.
final class ArrivalMemory: Sendable {
    /// Memory for one buffer.
    struct Piece: @unchecked Sendable {
        let memory: UnsafeMutableRawBufferPointer
        /// The start of its slab.
        fileprivate let slab: UInt
    }

    private struct State {
        /// The last one given back is the next one taken, as a processor's cache still has it.
        var spare: [Piece] = []
        /// How many pieces of each slab are spare.
        var spareOfSlabs: [UInt: Int] = [:]
        /// Whether any was taken since the last look.
        var isInUse = false
    }

    /// A huge page of x86-64, and of ARM64 with pages of 4 KiB.
    private static let slabLength = 2 << 20
    private static let piecesOfSlab = slabLength / ArrivalBuffer.capacity

    private let state = Lock(State())

    deinit {
        // Each buffer that has a piece keeps this alive.
        state.withLock { state in
            for slab in state.spareOfSlabs.keys { Self.unmap(slab) }
        }
    }

    func take() -> Piece {
        state.withLock { state in
            state.isInUse = true
            if state.spare.isEmpty { Self.addSlab(to: &state) }
            let piece = state.spare.removeLast()
            state.spareOfSlabs[piece.slab, default: 0] -= 1
            return piece
        }
    }

    func giveBack(_ piece: Piece) {
        state.withLock { state in
            state.spare.append(piece)
            state.spareOfSlabs[piece.slab, default: 0] += 1
        }
    }

    /// Gives slabs back to the system of which no piece is in use, unless some was taken since this was called last.
    func trim() {
        let unused = state.withLock { state -> Set<UInt> in
            defer { state.isInUse = false }
            guard !state.isInUse else { return [] }
            let unused = Set(state.spareOfSlabs.filter { $0.value == Self.piecesOfSlab }.keys)
            for slab in unused { state.spareOfSlabs[slab] = nil }
            state.spare.removeAll { unused.contains($0.slab) }
            return unused
        }
        for slab in unused { Self.unmap(slab) }
    }

    /// How many bytes are kept that are not in use.
    var spareBytes: Int { state.withLock { $0.spare.count * ArrivalBuffer.capacity } }

    private static func addSlab(to state: inout State) {
        let slab = map()
        for index in (0..<piecesOfSlab).reversed() {
            let start = UnsafeMutableRawPointer(bitPattern: slab + UInt(index * ArrivalBuffer.capacity))
            state.spare.append(
                Piece(memory: UnsafeMutableRawBufferPointer(start: start, count: ArrivalBuffer.capacity), slab: slab)
            )
        }
        state.spareOfSlabs[slab] = piecesOfSlab
    }

    /// Maps a slab that begins at a multiple of its length.
    private static func map() -> UInt {
        let whole = mmap(nil, 2 * slabLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let whole, whole != MAP_FAILED else { fatalError("no memory for what arrives (errno \(errno))") }
        let length = UInt(slabLength)
        let (start, end) = (UInt(bitPattern: whole), UInt(bitPattern: whole) + 2 * length)
        let slab = (start + length - 1) / length * length
        if slab > start { munmap(whole, Int(slab - start)) }
        munmap(UnsafeMutableRawPointer(bitPattern: slab + length), Int(end - slab - length))
        // Where there are no huge pages, small ones do.
        madvise(UnsafeMutableRawPointer(bitPattern: slab), slabLength, MADV_HUGEPAGE)
        return slab
    }

    private static func unmap(_ slab: UInt) {
        munmap(UnsafeMutableRawPointer(bitPattern: slab), slabLength)
    }
}
