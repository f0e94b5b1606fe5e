// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CXXHash
internal import Glibc
internal import Platform
internal import Synchronization

/// Taking bytes out of the file, which anybody may change, cut or empty at any moment, also while it is read.
///
/// Bytes are copied to memory first. There they are compared with their blocks' checksums, or the file's stamp
/// shows after the copy that nothing has changed since that was done last.
extension CachedObject {
    /// Answers with the bytes of `range`, whose blocks are in the file: from memory where they are still there.
    ///
    /// False when some of them are not what they should be; they are missing then. Ends the reading that
    /// `makeResident` counted.
    func answer(_ range: ByteRange, _ body: (CachedBytes) -> Void) -> Bool {
        defer { letGo() }
        let recent = takeRecent(range)
        if recent.covers(range) {
            body(recent.parts.count == 1 ? .whole(recent.parts[0].bytes) : .parts(recent.parts.map { $0.bytes }))
            withExtendedLifetime(recent) {}
            return true
        }
        return buffers.withBuffer(Int(geometry.aligned(range).count)) { buffer in
            guard let bytes = recent.parts.isEmpty ? copy(range, into: buffer) : assemble(range, recent, into: buffer)
            else { return false }
            body(.whole(bytes))
            return true
        }
    }

    /// Copies the bytes of `range`, whose blocks are in the file, to `buffer`, which has room for the whole blocks.
    private func copy(_ range: ByteRange, into buffer: UnsafeMutableRawBufferPointer) -> UnsafeRawBufferPointer? {
        let blocks = geometry.blocks(in: range)
        let stamp = monitor.inspect { Self.stamp(of: blocks, $0) }
        return stamp.flatMap { copyTrusted(range, $0, into: buffer) } ?? copyVerified(range, into: buffer)
    }

    /// Why bytes need not be compared with checksums.
    struct Trust {
        /// What the file was when their blocks were verified.
        var stamp: FileStamp
        /// No block of the object is missing.
        var isOfWholeObject: Bool
    }

    /// Why the blocks of `range` may be read by ``readTrusted(_:_:_:)``; nil when they may not.
    func trust(in range: ByteRange) -> Trust? {
        let blocks = geometry.blocks(in: range)
        return monitor.inspect { state in
            guard let stamp = Self.stamp(of: blocks, state) else { return nil }
            state.lastRead = range.upper
            return Trust(stamp: stamp, isOfWholeObject: state.blocks.missingCount == 0)
        }
    }

    /// Answers from verified blocks; false when the file is not what it was.
    ///
    /// Whoever gives blocks up meanwhile changes the file, so this need not count as a reader.
    func readTrusted(_ range: ByteRange, _ stamp: FileStamp, _ body: (CachedBytes) -> Void) -> Bool {
        buffers.withBuffer(Int(range.count)) { buffer in
            guard let bytes = copyTrusted(range, stamp, into: buffer) else { return false }
            body(.whole(bytes))
            return true
        }
    }

    /// Ends the use of blocks by a reader that was counted.
    func letGo() {
        readers.subtract(1, ordering: .releasing)
    }

    /// What the file was when these blocks were verified; nil when they are not.
    private static func stamp(of blocks: Range<Int>, _ state: State) -> FileStamp? {
        blocks.allSatisfy { state.blocks[$0] == .verified } ? state.stamp : nil
    }

    /// Copies verified blocks; nil when the file is not what it was when they were verified.
    private func copyTrusted(
        _ range: ByteRange,
        _ stamp: FileStamp,
        into buffer: UnsafeMutableRawBufferPointer
    ) -> UnsafeRawBufferPointer? {
        let part = UnsafeMutableRawBufferPointer(rebasing: buffer[..<Int(range.count)])
        guard let count = try? file.descriptor.read(into: part, at: range.lower), count == part.count,
            FileStamp(file.descriptor.raw) == stamp
        else { return nil }
        return UnsafeRawBufferPointer(part)
    }

    func copyVerified(
        _ range: ByteRange,
        into buffer: UnsafeMutableRawBufferPointer
    ) -> UnsafeRawBufferPointer? {
        let blocks = geometry.blocks(in: range)
        let whole = geometry.aligned(range)
        let expected = monitor.inspect { Array($0.checksums[blocks]) }
        let moment = FileStamp.Moment.now()
        let stamp = FileStamp(file.descriptor.raw)
        let filled: Int
        do throws(SystemError) {
            filled = try file.descriptor.read(into: buffer, at: whole.lower)
        } catch {
            condition.failed(error)
            filled = 0
        }
        let damaged = blocks.filter { block in
            let part = geometry.range(of: block)
            let lower = Int(part.lower - whole.lower)
            guard lower + Int(part.count) <= filled else { return true }
            return moorage_XXH3_64bits(buffer.baseAddress.map { $0 + lower }, Int(part.count))
                != expected[block - blocks.lowerBound]
        }
        guard damaged.isEmpty else {
            drop(damaged)
            return nil
        }
        if let stamp, stamp.isConclusive(at: moment), FileStamp(file.descriptor.raw) == stamp { trust(blocks, stamp) }
        let lower = Int(range.lower - whole.lower)
        return UnsafeRawBufferPointer(rebasing: buffer[lower..<lower + Int(range.count)])
    }

    /// Notes blocks that had their checksums while the file had this stamp; others that had them earlier do not count.
    private func trust(_ blocks: Range<Int>, _ stamp: FileStamp) {
        monitor.inspect { state in
            if state.stamp != stamp {
                if state.stamp != nil {
                    for block in state.blocks.indices where state.blocks[block] == .verified {
                        state.blocks[block] = .stored
                    }
                }
                state.stamp = stamp
            }
            for block in blocks where state.blocks[block] == .stored { state.blocks[block] = .verified }
        }
    }

    /// Makes blocks missing that are not what they should be.
    private func drop(_ blocks: [Int]) {
        let dropped = monitor.inspect { state in
            blocks.filter { block in
                defer { state.blocks[block] = .missing }
                return state.blocks[block] != .missing
            }
        }
        guard !dropped.isEmpty else { return }
        condition.foundDamaged(dropped.count)
        Log.warning("cache", "\(dropped.count) blocks of \(key) are damaged on disk and will be fetched again")
        for block in dropped { try? file.clearSlots(of: block..<block + 1) }
    }

    /// Takes in what another process has put into the file since it was opened.
    func takeInSlots(of range: ByteRange) {
        let blocks = geometry.blocks(in: range)
        guard let slots = try? file.loadSlots(blocks) else { return }
        monitor.inspect { state in
            // Where a checksum is known already, the block was there and was found damaged.
            for (block, slot) in zip(blocks, slots) where state.blocks[block] == .missing && state.checksums[block] == 0
            {
                guard let slot else { continue }
                state.blocks[block] = .stored
                state.checksums[block] = slot
            }
        }
    }
}
