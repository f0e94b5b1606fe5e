// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc

/// What lseek(2) looks for in a file with holes.
package enum SeekTarget: Hashable, Sendable, CaseIterable {
    /// `SEEK_DATA`: the next byte that may be other than zero.
    case data
    /// `SEEK_HOLE`: the next byte that is known to be zero, or the end of the file.
    case hole
}

/// The space that a file takes, and its holes.
extension FileDescriptor {
    /// fallocate(2) without flags, or with `FALLOC_FL_KEEP_SIZE`: the disk holds the space of `range` from now on.
    package func allocate(_ range: ByteRange, keepingSize: Bool) throws(SystemError) {
        try fallocate(keepingSize ? moorage_FALLOC_FL_KEEP_SIZE : 0, range)
    }

    /// Has `range` read as zeros and gives its space back (`FALLOC_FL_PUNCH_HOLE`); zeros are written where the file
    /// system cannot do that.
    ///
    /// The file's length stays.
    package func clear(_ range: ByteRange) throws(SystemError) {
        do throws(SystemError) {
            try fallocate(moorage_FALLOC_FL_PUNCH_HOLE | moorage_FALLOC_FL_KEEP_SIZE, range)
        } catch {
            guard error.code == EOPNOTSUPP else { throw error }
            guard let part = range.intersection(ByteRange(0, try status().size)) else { return }
            try writeZeros(part)
        }
    }

    /// Has `range` read as zeros whose space is taken (`FALLOC_FL_ZERO_RANGE`).
    package func zero(_ range: ByteRange, keepingSize: Bool) throws(SystemError) {
        do throws(SystemError) {
            let size = keepingSize ? moorage_FALLOC_FL_KEEP_SIZE : 0
            try fallocate(moorage_FALLOC_FL_ZERO_RANGE | size, range)
        } catch {
            // tmpfs cannot.
            guard error.code == EOPNOTSUPP else { throw error }
            try clear(range)
            try allocate(range, keepingSize: keepingSize)
        }
    }

    /// Makes a file that is shorter than `length` that long, with zeros; unlike ftruncate(2) it never cuts what somebody
    /// else appends meanwhile.
    ///
    /// The byte before `length` must be nobody's.
    package func extend(to length: Int64) throws(SystemError) {
        guard length > 0, try status().size < length else { return }
        try writeZeros(ByteRange(length - 1, length))
    }

    /// The offset of the next data or hole at or behind `offset`; nil when there is none before the end of the file.
    ///
    /// It moves the place where read(2) and write(2) go on.
    package func next(_ target: SeekTarget, from offset: Int64) throws(SystemError) -> Int64? {
        let whence = target == .data ? moorage_SEEK_DATA : moorage_SEEK_HOLE
        do throws(SystemError) {
            return Int64(try retryingOnInterrupt("lseek") { lseek(raw, Int(offset), whence) })
        } catch {
            guard error.code == ENXIO else { throw error }
            return nil
        }
    }

    /// The first bytes of a range that may be other than zeros, up to the next hole; nil when there are none.
    ///
    /// It moves the place where read(2) and write(2) go on.
    package func firstData(in range: ByteRange) throws(SystemError) -> ByteRange? {
        guard !range.isEmpty, let data = try next(.data, from: range.lower), data < range.upper else { return nil }
        return ByteRange(data, min(try next(.hole, from: data) ?? range.upper, range.upper))
    }

    private func fallocate(_ mode: Int32, _ range: ByteRange) throws(SystemError) {
        _ = try retryingOnInterrupt("fallocate") { moorage_fallocate(raw, mode, range.lower, range.count) }
    }

    private func writeZeros(_ range: ByteRange) throws(SystemError) {
        let zeros = [UInt8](repeating: 0, count: Int(min(range.count, 65_536)))
        var position = range.lower
        while position < range.upper {
            let count = Int(min(Int64(zeros.count), range.upper - position))
            position += Int64(
                try retryingOnInterrupt("pwrite") {
                    zeros.withUnsafeBytes { pwrite(raw, $0.baseAddress, count, Int(position)) }
                }
            )
        }
    }
}

extension Files {
    /// What the regular files of a folder take on the disk, in bytes; 0 when there is no such folder.
    package static func occupiedBytes(in directory: String) -> Int64 {
        guard let folder = opendir(directory) else { return 0 }
        defer { closedir(folder) }
        var sum: Int64 = 0
        while let entry = readdir(folder) {
            var status = stat()
            let result = withUnsafePointer(to: &entry.pointee.d_name) { name in
                name.withMemoryRebound(to: CChar.self, capacity: 256) {
                    fstatat(dirfd(folder), $0, &status, AT_SYMLINK_NOFOLLOW)
                }
            }
            if result == 0, status.st_mode & S_IFMT == S_IFREG { sum += Int64(status.st_blocks) * 512 }
        }
        return sum
    }
}
