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

    /// Computes a record from the content, several times while somebody is still writing.
    ///
    /// A file that keeps changing, or cannot be read to its end, is there all the same, and must not hide the others
    /// in its bucket: its tag is then one of its stamp.
    private func renewed(_ file: OpenFile, _ old: ObjectRecord?) throws(StorageError) -> StoredObject {
        for _ in 0..<3 {
            let status = try storing { () throws(SystemError) in try file.descriptor.status() }
            let digest: [UInt8]?
            do {
                digest = try Self.digest(of: file, .md5, while: FileStamp(status))
            } catch {
                Log.warning("serve", "a file cannot be read: \(error)")
                break
            }
            guard let digest else { continue }
            let record = Self.record(Hexadecimal.encode(digest), status, old)
            // A write within the clock's resolution would leave the same stamp: remember settled files only.
            if Timestamp.now().seconds - status.modified.seconds > 2 { try? records.write(record, to: file.descriptor) }
            return StoredObject(record: record, size: status.size, file: file, inode: status.inode)
        }
        let status = try storing { () throws(SystemError) in try file.descriptor.status() }
        let text = "\(status.size) \(status.modified.nanoseconds) \(status.inode)"
        // The form of a tag that is no digest of the content.
        let tag = Hexadecimal.encode(Digest.of(Array(text.utf8), .md5)) + "-0"
        let record = Self.record(tag, status, old)
        return StoredObject(record: record, size: status.size, file: file, inode: status.inode)
    }

    /// The record of a file as it is now, with what is kept of an old one.
    private static func record(_ entityTag: String, _ status: FileStatus, _ old: ObjectRecord?) -> ObjectRecord {
        var record = ObjectRecord(entityTag: entityTag, modified: status.modified, stamp: FileStamp(status))
        record.fields = old?.fields ?? HTTPFields()
        // It was the time of the old content.
        record.fields["x-amz-meta-mtime"] = nil
        return record
    }

    /// The digest of a whole file; nil when the file does not keep its stamp meanwhile.
    private static func digest(
        of file: OpenFile,
        _ algorithm: DigestAlgorithm,
        while stamp: FileStamp
    ) throws(SystemError) -> [UInt8]? {
        let digest = Digest(algorithm)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 262_144, alignment: 16)
        defer { buffer.deallocate() }
        var offset: Int64 = 0
        while true {
            let count = try file.descriptor.read(into: buffer, at: offset)
            digest.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            offset += Int64(count)
            guard FileStamp(try file.descriptor.status()) == stamp else { return nil }
            if count < buffer.count { return digest.finalize() }
        }
    }
}
