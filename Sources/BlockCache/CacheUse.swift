// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// When a cached file was used last, and whether it was used again: kept in the inode, for every process to see.
///
/// The time of modification is that of the last use. The sticky bit, which means nothing for files on Linux, marks
/// those that were used again: unlike access times no reading or mount option of others changes it.
enum CacheUse {
    /// Uses within this time of each other count as one, in seconds: a program may open a file several times.
    static let correlated = 30.0

    /// Notes a use of an open file, at most once in ``correlated``.
    static func note(_ descriptor: borrowing FileDescriptor, isNew: Bool) {
        guard let status = try? descriptor.status() else { return }
        let age = Double(Timestamp.now().nanoseconds - status.modified.nanoseconds) / 1e9
        guard isNew || !(0..<correlated).contains(age) else { return }
        if !isNew, !isProtected(status) { _ = fchmod(descriptor.raw, status.mode & 0o777 | S_ISVTX) }
        _ = futimens(descriptor.raw, nil)
    }

    static func isProtected(_ status: FileStatus) -> Bool { status.mode & S_ISVTX != 0 }
}
