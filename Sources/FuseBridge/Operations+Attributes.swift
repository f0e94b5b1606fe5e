// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CFuse
internal import FileSystem
internal import Glibc
internal import Platform

/// Attributes, symbolic links' texts and the file system's numbers.
extension Operations {
    static func addAttributes(to table: inout fuse_lowlevel_ops) {
        table.getattr = { raw, number, _ in
            guard let request = Request(raw) else { return }
            request.attributes { () throws(FileError) in try request.fileSystem.status(number) }
        }
        table.setattr = { raw, number, attributes, wanted, info in
            guard let request = Request(raw), let attributes else { return }
            request.attributes { () throws(FileError) in
                try request.fileSystem.setAttributes(
                    number,
                    Operations.changes(attributes.pointee, wanted: wanted),
                    size: wanted & FUSE_SET_ATTR_SIZE != 0 ? Int64(attributes.pointee.st_size) : nil,
                    isByHandle: info != nil,
                    accessed: Operations.time(
                        attributes.pointee.st_atim,
                        isGiven: wanted & FUSE_SET_ATTR_ATIME != 0,
                        isNow: wanted & FUSE_SET_ATTR_ATIME_NOW != 0
                    )
                )
            }
        }
        table.readlink = { raw, number in
            guard let request = Request(raw) else { return }
            do throws(FileError) {
                let target = try request.interruptible { () throws(FileError) in
                    try request.fileSystem.readLink(number)
                }
                _ = fuse_reply_readlink(request.raw, target.bytes.map { CChar(bitPattern: $0) } + [0])
            } catch {
                request.fail(error)
            }
        }
        table.statfs = { raw, _ in
            guard let request = Request(raw) else { return }
            var status = Operations.statistics(request.fileSystem.statistics())
            _ = fuse_reply_statfs(request.raw, &status)
        }
    }

    private static func changes(_ attributes: stat, wanted: Int32) -> AttributeChanges {
        var changes = AttributeChanges()
        if wanted & FUSE_SET_ATTR_MODE != 0 { changes.permissions = attributes.st_mode & 0o7777 }
        if wanted & FUSE_SET_ATTR_UID != 0 { changes.uid = attributes.st_uid }
        if wanted & FUSE_SET_ATTR_GID != 0 { changes.gid = attributes.st_gid }
        changes.modified = time(
            attributes.st_mtim,
            isGiven: wanted & FUSE_SET_ATTR_MTIME != 0,
            isNow: wanted & FUSE_SET_ATTR_MTIME_NOW != 0
        )
        return changes
    }

    /// A time to set: the present one, the one given, or none.
    private static func time(_ given: timespec, isGiven: Bool, isNow: Bool) -> Timestamp? {
        if isNow { return .now() }
        return isGiven ? Timestamp(seconds: Int64(given.tv_sec), nanoseconds: Int64(given.tv_nsec)) : nil
    }

    private static func statistics(_ space: FileSystemStatistics) -> statvfs {
        let blockSize = 4096
        var status = statvfs()
        status.f_bsize = UInt(blockSize)
        status.f_frsize = UInt(blockSize)
        status.f_blocks = UInt(space.totalBytes / Int64(blockSize))
        status.f_bfree = UInt(space.freeBytes / Int64(blockSize))
        status.f_bavail = status.f_bfree
        status.f_files = 1 << 32
        status.f_ffree = 1 << 32
        status.f_favail = 1 << 32
        status.f_namemax = 255
        return status
    }
}
