// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc

/// The file that the standard error of a process in the background goes to.
///
/// It is kept short: when it has reached its limit it becomes `PATH.1`, which replaces the one before, and a new one
/// begins.
package struct LogFile: Sendable, Hashable {
    /// The length from which on a new file begins, in bytes.
    package static let standardLimit: Int64 = 4 << 20

    let path: String
    let limit: Int64

    package init(_ path: String, limit: Int64 = standardLimit) {
        self.path = path
        self.limit = limit
    }

    /// Opens the file for appending, or a new one when it is long enough; creates it with mode 0600.
    package func open() throws(SystemError) -> FileDescriptor {
        if let status = try FileStatus.of(path), status.size >= limit {
            try Files.rename(path, to: path + ".1")
        }
        return try FileDescriptor.open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW)
    }

    /// Lets `descriptor` go on in a new file when the one it writes to is this and long enough.
    ///
    /// A file that somebody else chose stays as it is.
    package func renew(_ descriptor: Int32) {
        var raw = stat()
        guard fstat(descriptor, &raw) == 0 else { return }
        let written = FileStatus(raw)
        guard written.size >= limit, let named = (try? FileStatus.of(path)) ?? nil else { return }
        guard named.device == written.device, named.inode == written.inode else { return }
        guard let new = try? open() else { return }
        _ = dup2(new.raw, descriptor)
    }
}
