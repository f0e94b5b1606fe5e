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
