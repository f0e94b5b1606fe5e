// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import CXXHash
internal import Glibc
package import Platform

/// The file of one cached object version: its bytes, sparse, with a trailer that says which blocks are there.
///
/// The bytes stand at their own offsets, so that a read takes one copy from the
/// file and an uploaded staging file becomes a cache file by getting a trailer.
/// The trailer begins at the next multiple of 4 KiB behind the object: a header
/// that names the object, then a slot of 16 bytes a block. A slot holds the
/// block's XXH3 and a guard value; a slot that was torn, or never written, has a
/// wrong guard and the block counts as missing. Nothing is ever fsynced: the
/// checksums find what a power cut left out.
package struct CacheFile: ~Copyable, Sendable {
    package let descriptor: FileDescriptor
    package let geometry: BlockGeometry
    /// False in a cache folder that this user, or nobody, can write to.
    package let isWritable: Bool
    /// Whether it was made just now, with nothing in it.
    let isNew: Bool
    private let firstSlot: Int64

    static let magic: [UInt8] = Array("MOORBLK1".utf8)
    static let slotSize = 16
    private static let guardSeed: UInt64 = 0x4D6F_6F72_6167_6531

    init(
        _ descriptor: consuming FileDescriptor,
        _ geometry: BlockGeometry,
        firstSlot: Int64,
        isWritable: Bool = true,
        isNew: Bool = false
    ) {
        self.descriptor = descriptor
        self.geometry = geometry
        self.firstSlot = firstSlot
        self.isWritable = isWritable
        self.isNew = isNew
    }

    /// Opens the file at `path` when it belongs to this object, else creates it anew.
    ///
    /// One that is there keeps the blocks that it was made with, as its header tells: mounts with other block sizes use
    /// the same folder. `preferredBlockSize` is for what is made now, in bytes.
    package static func open(
        _ path: String,
        key: ObjectKey,
        version: ObjectVersion,
        preferredBlockSize: Int64
    ) throws(SystemError) -> CacheFile {
        let geometry = BlockGeometry(size: version.size, preferredBlockSize: preferredBlockSize)
        let header = header(key: key, version: version, blockSize: geometry.blockSize)
        var isNew = false
        var failure: SystemError?
        // Who makes the file at the same time, another thread or the other process, must end with the same one: what goes
        // into a file that has lost its name is lost with it.
        for _ in 0..<maximumAttempts {
            if let opened = try openIfPresent(path) {
                do throws(SystemError) {
                    if let found = try Self.geometry(of: opened.descriptor, key, version),
                        try opened.descriptor.status().links > 0
                    {
                        return CacheFile(opened, found, key, version, isNew: isNew)
                    }
                } catch {
                    // A bad sector is left behind; when new files fail as well, this is what is wrong with the disk.
                    failure = error
                }
                // It belongs to another object, or is damaged.
                try remove(path, ifItIs: opened.descriptor)
            }
            isNew = try create(path, header, at: trailerOffset(size: version.size))
        }
        throw failure ?? SystemError.make(EAGAIN, "open", path)
    }

    /// The file at `path` when it belongs to this object, whatever its blocks; else nil.
    static func existing(_ path: String, key: ObjectKey, version: ObjectVersion) throws(SystemError) -> CacheFile? {
        guard let opened = try openIfPresent(path), let found = try geometry(of: opened.descriptor, key, version) else {
            return nil
        }
        return CacheFile(opened, found, key, version, isNew: false)
    }

    private init(
        _ opened: consuming OpenedFile,
        _ geometry: BlockGeometry,
        _ key: ObjectKey,
        _ version: ObjectVersion,
        isNew: Bool
    ) {
        let header = Self.header(key: key, version: version, blockSize: geometry.blockSize)
        let firstSlot = Self.trailerOffset(size: version.size) + Int64(header.count)
        let isWritable = opened.isWritable
        self.init(opened.descriptor, geometry, firstSlot: firstSlot, isWritable: isWritable, isNew: isNew)
    }

    /// How a file of this object is cut into blocks, as its header tells; nil when it is none.
    private static func geometry(
        of file: borrowing FileDescriptor,
        _ key: ObjectKey,
        _ version: ObjectVersion
    ) throws(SystemError) -> BlockGeometry? {
        let offset = trailerOffset(size: version.size)
        let expected = header(key: key, version: version, blockSize: 0)
        var found = [UInt8](repeating: 0, count: expected.count)
        guard try read(file, into: &found, at: offset) == found.count else { return nil }
        let length = Int64(bitPattern: integer(found, at: magic.count + 8))
        // Nothing else may differ. What cannot be was damaged, and could be any number.
        guard BlockGeometry.isPossible(length, size: version.size),
            found == header(key: key, version: version, blockSize: length)
        else {
            return nil
        }
        let geometry = BlockGeometry(size: version.size, preferredBlockSize: length)
        return geometry.blockSize == length ? geometry : nil
    }

    /// How often a file is looked for that others make and take away meanwhile.
    private static let maximumAttempts = 16

    /// A file before it is known whose it is.
    private struct OpenedFile: ~Copyable {
        let descriptor: FileDescriptor
        let isWritable: Bool
    }

    private static func openIfPresent(_ path: String) throws(SystemError) -> OpenedFile? {
        do throws(SystemError) {
            return OpenedFile(descriptor: try FileDescriptor.open(path, O_RDWR | O_NOFOLLOW), isWritable: true)
        } catch {
            switch error.code {
            case ENOENT: return nil
            case EROFS, EACCES, EPERM: break
            case ELOOP:
                // A symbolic link is not of ours.
                try Files.removeIfPresent(path)
                return nil
            default: throw error
            }
            return OpenedFile(descriptor: try FileDescriptor.open(path, O_RDONLY | O_NOFOLLOW), isWritable: false)
        }
    }

    private static func remove(_ path: String, ifItIs file: borrowing FileDescriptor) throws(SystemError) {
        guard let found = try FileStatus.of(path), try found.inode == file.status().inode else { return }
        try Files.removeIfPresent(path)
    }

    /// Puts an empty cache file at the path; false when that is to be looked for anew: there is one by now.
    ///
    /// It is complete when it appears.
    private static func create(_ path: String, _ header: [UInt8], at offset: Int64) throws(SystemError) -> Bool {
        let temporary = "\(path).\(Randomness.hexadecimal(bytes: 6))"
        let file = try FileDescriptor.open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
        do throws(SystemError) {
            try write(header, to: file, at: offset)
            if moorage_renameat2(AT_FDCWD, temporary, AT_FDCWD, path, UInt32(moorage_RENAME_NOREPLACE)) == 0 {
                return true
            }
            // Also when somebody has deleted the temporary file.
            guard errno == EEXIST || errno == ENOENT else { throw SystemError.last("renameat2", path) }
        } catch {
            try? Files.removeIfPresent(temporary)
            throw error
        }
        try Files.removeIfPresent(temporary)
        return false
    }

    /// Turns a complete file into a cache file: checks its length and appends a trailer with every block's checksum.
    package static func adopt(
        _ path: String,
        key: ObjectKey,
        version: ObjectVersion,
        preferredBlockSize: Int64,
        check: (any FileCheck)? = nil
    ) throws(SystemError) -> CacheFile {
        let geometry = BlockGeometry(size: version.size, preferredBlockSize: preferredBlockSize)
        let header = header(key: key, version: version, blockSize: geometry.blockSize)
        let trailer = trailerOffset(size: version.size)
        let descriptor = try FileDescriptor.open(path, O_RDWR | O_NOFOLLOW)
        guard try descriptor.status().size == version.size else { throw SystemError.make(EINVAL, "adopt", path) }
        let file = CacheFile(descriptor, geometry, firstSlot: trailer + Int64(header.count))
        try write(header + file.slotsOfEveryBlock(check), to: file.descriptor, at: trailer)
        return file
    }

    private func slotsOfEveryBlock(_ check: (any FileCheck)?) throws(SystemError) -> [UInt8] {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(geometry.blockSize), alignment: 4096)
        defer { buffer.deallocate() }
        let reader = CheckedReader(descriptor.raw, check)
        var slots: [UInt8] = []
        slots.reserveCapacity(geometry.count * Self.slotSize)
        for block in 0..<geometry.count {
            let range = geometry.range(of: block)
            let part = UnsafeMutableRawBufferPointer(rebasing: buffer[..<Int(range.count)])
            try reader.read(into: part, at: range.lower)
            slots += Self.slot(block: block, checksum: moorage_XXH3_64bits(part.baseAddress, part.count))
        }
        return slots
    }

    /// The blocks that the trailer says are there; their bytes are not verified yet.
    package func loadSlots() throws(SystemError) -> [UInt64?] { try loadSlots(0..<geometry.count) }

    /// The checksums of some blocks, nil for those that are not there.
    package func loadSlots(_ blocks: Range<Int>) throws(SystemError) -> [UInt64?] {
        var raw = [UInt8](repeating: 0, count: blocks.count * Self.slotSize)
        _ = try Self.read(descriptor, into: &raw, at: firstSlot + Int64(blocks.lowerBound * Self.slotSize))
        return raw.withUnsafeBytes { raw in
            blocks.enumerated().map { index, block in
                let offset = index * Self.slotSize
                let checksum = UInt64(littleEndian: raw.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
                let mark = UInt64(littleEndian: raw.loadUnaligned(fromByteOffset: offset + 8, as: UInt64.self))
                return mark == checksum ^ (Self.guardSeed &+ UInt64(block)) ? checksum : nil
            }
        }
    }

    /// Records blocks that follow each other, whose bytes have been written.
    package func storeSlots(from first: Int, _ checksums: [UInt64]) throws(SystemError) {
        guard !checksums.isEmpty else { return }
        var slots: [UInt8] = []
        slots.reserveCapacity(checksums.count * Self.slotSize)
        for (index, checksum) in checksums.enumerated() {
            slots += Self.slot(block: first + index, checksum: checksum)
        }
        try Self.write(slots, to: descriptor, at: firstSlot + Int64(first * Self.slotSize))
    }

    /// Forgets blocks.
    package func clearSlots(of blocks: Range<Int>) throws(SystemError) {
        let zeros = [UInt8](repeating: 0, count: blocks.count * Self.slotSize)
        try Self.write(zeros, to: descriptor, at: firstSlot + Int64(blocks.lowerBound * Self.slotSize))
    }

    /// The XXH3 of a block as it stands on disk; `buffer` holds at least one block.
    package func checksum(of block: Int, buffer: UnsafeMutableRawBufferPointer) throws(SystemError) -> UInt64 {
        let range = geometry.range(of: block)
        let part = UnsafeMutableRawBufferPointer(rebasing: buffer[..<Int(range.count)])
        let count = try descriptor.read(into: part, at: range.lower)
        return moorage_XXH3_64bits(part.baseAddress, count)
    }

    static func trailerOffset(size: Int64) -> Int64 { (size + 4095) / 4096 * 4096 }

    static func header(key: ObjectKey, version: ObjectVersion, blockSize: Int64) -> [UInt8] {
        var header = magic
        let tag = Array((version.entityTag?.fieldValue ?? "").utf8)
        let numbers = [
            version.size, blockSize, version.lastModified?.seconds ?? 0, Int64(key.bytes.count), Int64(tag.count),
        ]
        // A tag names a version alone; the time counts only where there is no tag, as listings and heads may differ.
        for (index, number) in numbers.enumerated() {
            header += bytes(UInt64(bitPattern: index == 2 && version.entityTag != nil ? 0 : number))
        }
        header += key.bytes
        header += tag
        header += [UInt8](repeating: 0, count: (16 - header.count % 16) % 16)
        return header
    }

    static func slot(block: Int, checksum: UInt64) -> [UInt8] {
        bytes(checksum) + bytes(checksum ^ (guardSeed &+ UInt64(block)))
    }

    private static func bytes(_ value: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: value >> (UInt64($0) * 8)) }
    }

    static func integer(_ bytes: [UInt8], at offset: Int) -> UInt64 {
        (0..<8).reduce(0) { $0 | UInt64(bytes[offset + $1]) << (UInt64($1) * 8) }
    }

    static func write(
        _ bytes: [UInt8],
        to file: borrowing FileDescriptor,
        at offset: Int64
    ) throws(SystemError) {
        let raw = file.raw
        var done = 0
        while done < bytes.count {
            done += try retryingOnInterrupt("pwrite") {
                bytes.withUnsafeBytes {
                    pwrite(raw, $0.baseAddress.map { $0 + done }, $0.count - done, Int(offset) + done)
                }
            }
        }
    }

    static func read(
        _ file: borrowing FileDescriptor,
        into bytes: inout [UInt8],
        at offset: Int64
    ) throws(SystemError) -> Int {
        let raw = file.raw
        let count = bytes.count
        var done = 0
        while done < count {
            let part = try retryingOnInterrupt("pread") {
                bytes.withUnsafeMutableBytes {
                    pread(raw, $0.baseAddress.map { $0 + done }, count - done, Int(offset) + done)
                }
            }
            if part == 0 { break }
            done += part
        }
        return done
    }
}
