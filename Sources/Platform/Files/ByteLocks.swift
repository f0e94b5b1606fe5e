// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc

/// Locks on single bytes of a file, each a sign for other processes, that the kernel takes away when the process ends,
/// however it ends.
///
/// Open-file-description locks (fcntl(2), F_OFD_SETLK), shared: any number of processes may lock the same byte. A byte
/// need not be within the file, which stays empty.
package final class ByteLocks: Sendable {
    /// Where a byte can be: no sum with a length of 1 is beyond what off_t holds.
    package static let places: ClosedRange<Int64> = 0...(1 << 62) - 1

    private let file: FileDescriptor
    private let path: String

    /// Opens the file, which is made when missing; never through a symbolic link.
    package init(at path: String) throws(SystemError) {
        file = try FileDescriptor.open(path, O_RDWR | O_CREAT | O_NOFOLLOW)
        self.path = path
    }

    /// Locks a byte; once more does nothing.
    package func take(_ place: Int64) throws(SystemError) {
        if moorage_ofd_lock_byte(file.raw, place) != 0 { throw SystemError.last("fcntl", path) }
    }

    /// Lets go of a byte.
    package func release(_ place: Int64) { _ = moorage_ofd_unlock_byte(file.raw, place) }

    /// Whether somebody has a byte of the file at `path` locked: through another opening of it, in whichever process.
    ///
    /// Without a file nobody has.
    package static func isTaken(_ place: Int64, at path: String) throws(SystemError) -> Bool {
        let file: FileDescriptor
        do throws(SystemError) {
            file = try FileDescriptor.open(path, O_RDONLY | O_NOFOLLOW)
        } catch {
            guard error.code == ENOENT else { throw error }
            return false
        }
        switch moorage_ofd_lock_byte_test(file.raw, place) {
        case 0: return false
        case 1: return true
        default: throw SystemError.last("fcntl", path)
        }
    }
}
