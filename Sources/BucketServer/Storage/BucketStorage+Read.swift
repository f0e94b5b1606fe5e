// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import Glibc
internal import HTTPWire
internal import Platform

/// An object as it was when it was opened; later writes replace the file, not its content.
struct StoredObject: Sendable {
    var record: ObjectRecord
    let size: Int64
    /// The open file; nil for a folder marker.
    let file: OpenFile?
    let inode: UInt64
}

extension BucketStorage {
    /// Opens an object; throws `noSuchKey` or `noSuchBucket`.
    func object(at path: ObjectPath) throws(StorageError) -> StoredObject {
        guard let parent = try openParent(of: path), let object = try object(path.name, in: parent, path.isFolder)
        else { throw .noSuchKey }
        return object
    }

    /// The object under a name in a folder; nil when there is none of that kind.
    func object(_ name: ObjectKey, in parent: OpenFile, _ isFolder: Bool) throws(StorageError) -> StoredObject? {
        if isFolder {
            guard let folder = try openFolder(name, in: parent), let record = try marker(of: folder) else {
                return nil
            }
            return StoredObject(record: record, size: 0, file: nil, inode: 0)
        }
        let file = try storing { () throws(SystemError) in
            try FolderCalls.open(name, beneath: parent.descriptor.raw, O_RDONLY)
        }
        guard let file else { return nil }
        let status = try storing { () throws(SystemError) in try file.descriptor.status() }
        guard status.isRegularFile else { return nil }
        return try current(file, status)
    }

    /// The object in an open file, with its record renewed when the file was changed by others.
    private func current(_ file: OpenFile, _ status: FileStatus) throws(StorageError) -> StoredObject {
        let old = try storing { () throws(SystemError) in try records.read(file.descriptor, status) }
        if let old, old.stamp == FileStamp(status) {
            return StoredObject(record: old, size: status.size, file: file, inode: status.inode)
        }
        return try renewed(file, old)
    }

    /// Computes a record from the content; several times while somebody is still writing, then as it is.
    private func renewed(_ file: OpenFile, _ old: ObjectRecord?) throws(StorageError) -> StoredObject {
        var status = try storing { () throws(SystemError) in try file.descriptor.status() }
        for _ in 0..<3 {
            let before = status
            let digest = try Self.digest(of: file, .md5)
            status = try storing { () throws(SystemError) in try file.descriptor.status() }
            var record = ObjectRecord(
                entityTag: Hexadecimal.encode(digest),
                modified: status.modified,
                stamp: FileStamp(status)
            )
            if let old {
                record.fields = old.fields
                // It was the time of the old content.
                record.fields["x-amz-meta-mtime"] = nil
            }
            if FileStamp(before) != FileStamp(status) { continue }
            // A write within the clock's resolution would leave the same stamp: remember settled files only.
            if Timestamp.now().seconds - status.modified.seconds > 2 { try? records.write(record, to: file.descriptor) }
            return StoredObject(record: record, size: status.size, file: file, inode: status.inode)
        }
        throw .system(SystemError.make(EBUSY, "digest", "a file that keeps changing"))
    }

    /// The digest of a whole file.
    static func digest(of file: OpenFile, _ algorithm: DigestAlgorithm) throws(StorageError) -> [UInt8] {
        let digest = Digest(algorithm)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 262_144, alignment: 16)
        defer { buffer.deallocate() }
        var offset: Int64 = 0
        while true {
            let count: Int
            do { count = try file.descriptor.read(into: buffer, at: offset) } catch { throw StorageError(error) }
            digest.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            offset += Int64(count)
            if count < buffer.count { return digest.finalize() }
        }
    }
}
