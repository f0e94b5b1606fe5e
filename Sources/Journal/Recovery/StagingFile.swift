// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import Glibc
internal import Platform

/// What a staging file holds.
struct StagingFile {
    let length: Int64
    let modified: Timestamp
    /// The ranges that are not holes (lseek(2), SEEK_DATA); everything where the file system cannot tell.
    let data: ExtentSet

    /// Looks at a file; nil when there is none.
    init?(_ path: String) throws(SystemError) {
        guard let status = try FileStatus.of(path), status.isRegularFile else { return nil }
        length = status.size
        modified = status.modified
        data = try Self.dataRanges(try FileDescriptor.open(path, O_RDONLY | O_NOFOLLOW), status.size)
    }

    /// Makes everything in a staging file that is not in `content` a hole again, so that it may be sent as it is.
    func clear(_ path: String, outside content: ContentMap) throws(SystemError) {
        let strays = data.ranges.flatMap { content.extents.gaps(in: $0) }.filter { $0.lower < content.size }
        guard !strays.isEmpty || length > content.size else { return }
        let file = try FileDescriptor.open(path, O_RDWR | O_NOFOLLOW)
        if length > content.size { try file.truncate(to: content.size) }
        for range in strays { try Self.punch(file, range) }
        try file.synchronizeData()
    }

    private static func punch(_ file: borrowing FileDescriptor, _ range: ByteRange) throws(SystemError) {
        let mode = moorage_FALLOC_FL_PUNCH_HOLE | moorage_FALLOC_FL_KEEP_SIZE
        if moorage_fallocate(file.raw, mode, range.lower, range.count) == 0 { return }
        guard errno == EOPNOTSUPP else { throw SystemError.last("fallocate") }
        let zeros = [UInt8](repeating: 0, count: 65_536)
        var position = range.lower
        while position < range.upper {
            let count = Int(min(Int64(zeros.count), range.upper - position))
            do {
                try zeros.withUnsafeBytes {
                    try file.write(UnsafeRawBufferPointer(rebasing: $0[..<count]), at: position)
                }
            } catch let error as SystemError {
                throw error
            } catch {
                throw SystemError.make(EIO, "pwrite")
            }
            position += Int64(count)
        }
    }

    private static func dataRanges(_ file: borrowing FileDescriptor, _ length: Int64) throws(SystemError) -> ExtentSet {
        var extents = ExtentSet()
        var position: Int64 = 0
        while position < length {
            let start = Int64(lseek(file.raw, Int(position), moorage_SEEK_DATA))
            if start < 0 {
                if errno == ENXIO { return extents }
                throw SystemError.last("lseek")
            }
            let end = Int64(lseek(file.raw, Int(start), moorage_SEEK_HOLE))
            guard end > start else { throw SystemError.last("lseek") }
            extents.insert(ByteRange(start, min(end, length)))
            position = end
        }
        return extents
    }
}
