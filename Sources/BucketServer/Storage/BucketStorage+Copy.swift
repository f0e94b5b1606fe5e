// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import Glibc
internal import HTTPWire
internal import Platform

extension BucketStorage {
    /// Copies an open object to another key, if the conditions hold; durable when it returns.
    func copy(
        _ source: StoredObject,
        _ record: ObjectRecord,
        to path: ObjectPath,
        _ conditions: WriteConditions
    ) throws(StorageError) -> ObjectRecord {
        try precheck(path, conditions)
        if path.isFolder {
            guard source.size == 0 else { throw .invalidKey("a key that ends in a slash is a folder, without content") }
            var marker = record
            marker.stamp = nil
            try putMarker(marker, at: path, conditions)
            return marker
        }
        let staged = try stage(expected: source.size)
        if let file = source.file { try staged.append(file, ByteRange(0, source.size)) }
        return try commit(staged, record, at: path, conditions)
    }

    /// Takes over a finished file on the same disk as content; it stays where it is until it is committed.
    func adopt(_ path: String, size: Int64) throws(StorageError) -> StagedFile {
        guard let slash = path.lastIndex(of: "/") else { throw .system(SystemError.make(EINVAL, "adopt", path)) }
        let name = ObjectKey(String(path[path.index(after: slash)...]))
        let parent = String(path[..<slash])
        return try storing { () throws(SystemError) in
            let folder = OpenFile(try FileDescriptor.open(parent, O_RDONLY | O_DIRECTORY))
            let file = OpenFile(try FileDescriptor.open(path, O_RDWR | O_NOFOLLOW))
            _ = fchmod(file.descriptor.raw, fileMode)
            return StagedFile(adopting: file, size: size, name: name, folder: folder)
        }
    }
}

extension StoredObject {
    /// Reads a stretch of the content piece by piece.
    func forEachPiece(
        in range: ByteRange,
        _ body: (UnsafeRawBufferPointer) throws(StorageError) -> Void
    ) throws(StorageError) {
        guard let file else { return }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 262_144, alignment: 4096)
        defer { buffer.deallocate() }
        var offset = range.lower
        while offset < range.upper {
            let wanted = Int(min(Int64(buffer.count), range.upper - offset))
            let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])
            let count: Int
            do { count = try file.descriptor.read(into: piece, at: offset) } catch { throw StorageError(error) }
            guard count > 0 else { throw .system(SystemError.make(EIO, "pread")) }
            try body(UnsafeRawBufferPointer(rebasing: piece[..<count]))
            offset += Int64(count)
        }
    }
}
