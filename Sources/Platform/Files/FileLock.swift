// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc

/// An exclusive lock on a file that the kernel releases when the process ends, however it ends.
///
/// An open-file-description lock (fcntl(2), F_OFD_SETLK): it belongs to this
/// descriptor alone, so other opens of the file in the process do not drop it.
package struct FileLock: ~Copyable, Sendable {
    private let file: FileDescriptor
    /// Tells this holding of the lock from every other one, to whoever looks at the file: see ``holder(of:)``.
    package let token: String

    /// Takes the lock, creating the file when missing; nil when another process holds it.
    ///
    /// The file then holds this process's pid, and behind it the ``token`` where that is wanted; on a full disk it may stay
    /// empty.
    package init?(acquiring path: String, tellsToken: Bool = false) throws(SystemError) {
        let file = try FileDescriptor.open(path, O_RDWR | O_CREAT | O_NOFOLLOW)
        if moorage_ofd_lock(file.raw, 1) != 0 {
            if errno == EAGAIN || errno == EACCES { return nil }
            throw SystemError.last("fcntl", path)
        }
        token = Randomness.hexadecimal(bytes: 8)
        try? file.truncate(to: 0)
        try? file.write(Array("\(getpid())\(tellsToken ? " \(token)" : "")\n".utf8))
        self.file = file
    }

    /// Closing alone does not do: a child that was forked and has not reached its exec has the descriptor too.
    deinit { _ = moorage_ofd_unlock(file.raw) }

    /// Whether some process holds the lock at `path` now, and the pid and the token that it wrote down.
    package static func holder(of path: String) -> (isHeld: Bool, pid: Int32?, token: String?) {
        guard let file = try? FileDescriptor.open(path, O_RDWR) else { return (false, nil, nil) }
        guard moorage_ofd_lock_test(file.raw) == 1 else { return (false, nil, nil) }
        let text = (try? Files.read(path, limit: 64)).map { String(decoding: $0, as: UTF8.self) } ?? ""
        let words = text.split(whereSeparator: \.isWhitespace)
        return (true, Int32(text.prefix { $0.isNumber }), words.count > 1 ? String(words[1]) : nil)
    }
}
