// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import CXXHash
internal import Glibc
internal import Platform

extension CacheFile {
    /// What a new version has in common with one that is cached.
    struct Inheritance {
        /// Bytes that are not those of the version before.
        let changed: ExtentSet
        /// A file that has bytes of the new version at their offsets, and which; open until they are taken.
        var local: (descriptor: Int32, extents: ExtentSet)?
        /// Bytes to copy at most.
        let limit: Int64
    }

    /// Begins the file of a version with what `old` has of it; returns how many bytes that is, 0 when there is no file
    /// made.
    ///
    /// What is copied carries the checksums it had, and is compared with them when it is read: a block that was
    /// damaged, or that somebody took from the old file meanwhile, is missing in the new one.
    static func inherit(
        from old: borrowing CacheFile,
        _ inheritance: Inheritance,
        at path: String,
        key: ObjectKey,
        version: ObjectVersion
    ) throws(SystemError) -> Int64 {
        // The old file's blocks, whatever new files have here: others would have other checksums.
        let geometry = BlockGeometry(size: version.size, preferredBlockSize: old.geometry.blockSize)
        guard geometry.blockSize == old.geometry.blockSize, geometry.count > 0 else { return 0 }
        // Before the bytes: whatever has a slot now has its bytes in the file.
        let slots = try old.loadSlots()
        let kept = (0..<min(slots.count, geometry.count)).filter { block in
            let range = geometry.range(of: block)
            return slots[block] != nil && range == old.geometry.range(of: block)
                && inheritance.changed.intersection(range).isEmpty
        }
        let bytes = kept.reduce(Int64(0)) { $0 + geometry.range(of: $1).count }
        guard !kept.isEmpty, bytes <= inheritance.limit else { return 0 }
        let temporary = "\(path).\(Randomness.hexadecimal(bytes: 6))"
        let header = header(key: key, version: version, blockSize: geometry.blockSize)
        let trailer = trailerOffset(size: version.size)
        let descriptor = try FileDescriptor.open(temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW)
        let file = CacheFile(descriptor, geometry, firstSlot: trailer + Int64(header.count))
        do throws(SystemError) {
            try write(header, to: file.descriptor, at: trailer)
            for run in runs(of: kept) {
                let (first, last) = (geometry.range(of: run.lowerBound), geometry.range(of: run.upperBound - 1))
                try copy(ByteRange(first.lower, last.upper), from: old.descriptor.raw, to: file.descriptor.raw)
                try file.storeSlots(from: run.lowerBound, run.compactMap { slots[$0] })
            }
            if let local = inheritance.local { try file.take(local.extents, from: local.descriptor) }
            guard moorage_renameat2(AT_FDCWD, temporary, AT_FDCWD, path, UInt32(moorage_RENAME_NOREPLACE)) == 0 else {
                throw SystemError.last("renameat2", path)
            }
        } catch {
            try? Files.removeIfPresent(temporary)
            throw error
        }
        CacheUse.note(file.descriptor, isNew: true)
        return bytes
    }

    /// Copies the blocks that lie wholly within `extents` of a file.
    private func take(_ extents: ExtentSet, from source: Int32) throws(SystemError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(geometry.blockSize), alignment: 4096)
        defer { buffer.deallocate() }
        for extent in extents.intersection(ByteRange(0, geometry.size)) {
            for block in geometry.blocks(in: extent) where extent.contains(geometry.range(of: block)) {
                try Self.copy(geometry.range(of: block), from: source, to: descriptor.raw)
                try storeSlots(from: block, [try checksum(of: block, buffer: buffer)])
            }
        }
    }

    private static func runs(of blocks: [Int]) -> [Range<Int>] {
        var runs: [Range<Int>] = []
        for block in blocks {
            if let last = runs.last, last.upperBound == block {
                runs[runs.count - 1] = last.lowerBound..<block + 1
            } else {
                runs.append(block..<block + 1)
            }
        }
        return runs
    }

    /// Copies bytes to the same place of another file, without copying where the disk can share them.
    private static func copy(_ range: ByteRange, from source: Int32, to target: Int32) throws(SystemError) {
        var (position, place) = (range.lower, range.lower)
        while position < range.upper {
            let wanted = Int(min(range.upper - position, 64 << 20))
            let count = moorage_copy_file_range(source, &position, target, &place, wanted, 0)
            if count > 0 { continue }
            guard count < 0, errno == EINTR else {
                throw count < 0 ? SystemError.last("copy_file_range") : SystemError.make(EIO, "copy_file_range")
            }
        }
    }
}
