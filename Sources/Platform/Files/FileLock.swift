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
    /// Tells this holding of the lock from every other one, to whoever looks at the file: see ``holder(of:)``; nil when it is
    /// not to tell.
    package let token: String?

    /// This byte is locked for reading only, and not exclusively as all others are, once the token is in the file: what is
    /// there before may be that of a holder of before, even of one before power loss.
    private static let told: Int64 = 1 << 62

    /// Takes the lock, creating the file when missing; nil when another process holds it.
    ///
    /// The file then holds this process's pid, and behind it a ``token`` where that is wanted; on a full disk it may stay
    /// empty.
    package init?(acquiring path: String, tellsToken: Bool = false) throws(SystemError) {
        let file = try FileDescriptor.open(path, O_RDWR | O_CREAT | O_NOFOLLOW)
        if moorage_ofd_lock(file.raw, 1) != 0 {
            if errno == EAGAIN || errno == EACCES { return nil }
            throw SystemError.last("fcntl", path)
        }
        token = tellsToken ? Randomness.hexadecimal(bytes: 8) : nil
        do throws(SystemError) {
            try file.truncate(to: 0)
            try file.write(Array("\(getpid())\(token.map { " \($0)" } ?? "")\n".utf8))
            if tellsToken, moorage_ofd_lock_byte(file.raw, Self.told) != 0 { throw SystemError.last("fcntl", path) }
        } catch {
            Log.debug("lock", "\(path): its holder is not told: \(error)")
        }
        self.file = file
    }

    /// Closing alone does not do: a child that was forked and has not reached its exec has the descriptor too.
    deinit { _ = moorage_ofd_unlock(file.raw) }

    /// Whether some process holds the lock at `path` now, and the pid and the token that it wrote down.
    package static func holder(of path: String) -> (isHeld: Bool, pid: Int32?, token: String?) {
        guard let file = try? FileDescriptor.open(path, O_RDWR) else { return (false, nil, nil) }
        let kind = moorage_ofd_lock_byte_kind(file.raw, told)
        guard kind > 0 else { return (false, nil, nil) }
        let text = (try? Files.read(path, limit: 64)).map { String(decoding: $0, as: UTF8.self) } ?? ""
        let words = text.split(whereSeparator: \.isWhitespace)
        return (true, Int32(text.prefix { $0.isNumber }), kind == 1 && words.count > 1 ? String(words[1]) : nil)
    }
}
