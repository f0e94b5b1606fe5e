// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc

/// Taking over bytes of another file.
extension FileDescriptor {
    /// Copies a range of another file to `position`, within the kernel and without a copy where the file system shares
    /// blocks (copy_file_range(2)); EIO where the other file is shorter.
    package func copy(
        _ range: ByteRange,
        of source: borrowing FileDescriptor,
        to position: Int64
    ) throws(SystemError) {
        var (from, to) = (range.lower, position)
        while from < range.upper {
            let wanted = Int(min(range.upper - from, 1 << 30))
            let count = moorage_copy_file_range(source.raw, &from, raw, &to, wanted, 0)
            if count > 0 { continue }
            if count == 0 { throw SystemError.make(EIO, "copy_file_range") }
            if errno == EINTR { continue }
            guard [EXDEV, EINVAL, EOPNOTSUPP, ENOSYS].contains(errno) else {
                throw SystemError.last("copy_file_range")
            }
            return try copyByReading(ByteRange(from, range.upper), of: source, to: to)
        }
    }

    private func copyByReading(
        _ range: ByteRange,
        of source: borrowing FileDescriptor,
        to position: Int64
    ) throws(SystemError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 262_144, alignment: 16)
        defer { buffer.deallocate() }
        var offset = range.lower
        while offset < range.upper {
            let wanted = Int(min(Int64(buffer.count), range.upper - offset))
            let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])
            let count = try source.read(into: piece, at: offset)
            if count == 0 { throw SystemError.make(EIO, "pread") }
            try write(UnsafeRawBufferPointer(rebasing: piece[..<count]), at: position + offset - range.lower)
            offset += Int64(count)
        }
    }

    /// Gives a file without a name (`O_TMPFILE`) one that nothing has (linkat(2)).
    package func link(to path: String) throws(SystemError) {
        _ = try retryingOnInterrupt("linkat", path) {
            linkat(AT_FDCWD, "/proc/self/fd/\(raw)", AT_FDCWD, path, AT_SYMLINK_FOLLOW)
        }
    }
}
