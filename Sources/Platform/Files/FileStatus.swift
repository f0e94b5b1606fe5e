// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import Glibc

/// What stat(2) tells of a file.
package struct FileStatus: Sendable, Hashable {
    package var device: UInt64
    package var inode: UInt64
    package var mode: UInt32
    package var uid: UInt32
    package var gid: UInt32
    /// How many names it has.
    package var links: UInt64
    package var size: Int64
    /// The space taken on disk, in bytes.
    package var allocated: Int64
    package var modified: Timestamp
    package var changed: Timestamp

    package init(_ status: stat) {
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        mode = status.st_mode
        uid = status.st_uid
        gid = status.st_gid
        links = UInt64(status.st_nlink)
        size = Int64(status.st_size)
        allocated = Int64(status.st_blocks) * 512
        modified = Timestamp(seconds: Int64(status.st_mtim.tv_sec), nanoseconds: Int64(status.st_mtim.tv_nsec))
        changed = Timestamp(seconds: Int64(status.st_ctim.tv_sec), nanoseconds: Int64(status.st_ctim.tv_nsec))
    }

    package var isDirectory: Bool { mode & S_IFMT == S_IFDIR }
    package var isRegularFile: Bool { mode & S_IFMT == S_IFREG }
    package var isSymbolicLink: Bool { mode & S_IFMT == S_IFLNK }

    /// lstat(2): a symbolic link is reported itself; nil when there is no such file.
    package static func of(_ path: String) throws(SystemError) -> FileStatus? {
        var status = stat()
        if lstat(path, &status) == 0 { return FileStatus(status) }
        if errno == ENOENT || errno == ENOTDIR { return nil }
        throw SystemError.last("lstat", path)
    }
}
