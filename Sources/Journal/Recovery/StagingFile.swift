// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
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

    /// What was written to it besides `known`.
    ///
    /// A file system tells of whole blocks: the zeros that fill those of a known range were written by nobody.
    func written(_ path: String, besides known: ExtentSet) throws(SystemError) -> [ByteRange] {
        let file = try FileDescriptor.open(path, O_RDONLY | O_NOFOLLOW)
        var written: [ByteRange] = []
        for gap in data.ranges.flatMap({ known.gaps(in: $0) }) {
            let isBeside = !known.intersection(ByteRange(max(0, gap.lower - 1), gap.upper + 1)).isEmpty
            if isBeside, gap.count < Self.largestBlock, try Self.isZero(gap, of: file) { continue }
            written.append(gap)
        }
        return written
    }

    /// In bytes; no file system of Linux has larger ones.
    private static let largestBlock: Int64 = 1 << 16

    private static func isZero(_ range: ByteRange, of file: borrowing FileDescriptor) throws(SystemError) -> Bool {
        var bytes = [UInt8](repeating: 0, count: Int(range.count))
        do {
            _ = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: range.lower) }
        } catch let error as SystemError {
            throw error
        } catch {
            throw SystemError.make(EIO, "pread")
        }
        return bytes.allSatisfy { $0 == 0 }
    }

    /// Makes everything in a staging file that is not in `content` a hole again, so that it may be sent as it is.
    func clear(_ path: String, outside content: ContentMap) throws(SystemError) {
        let strays = data.ranges.flatMap { content.extents.gaps(in: $0) }.filter { $0.lower < content.size }
        guard !strays.isEmpty || length > content.size else { return }
        let file = try FileDescriptor.open(path, O_RDWR | O_NOFOLLOW)
        if length > content.size { try file.truncate(to: content.size) }
        for range in strays { try file.clear(range) }
        try file.synchronizeData()
    }

    private static func dataRanges(_ file: borrowing FileDescriptor, _ length: Int64) throws(SystemError) -> ExtentSet {
        var extents = ExtentSet()
        var position: Int64 = 0
        while position < length {
            guard let start = try file.next(.data, from: position) else { return extents }
            guard let end = try file.next(.hole, from: start), end > start else {
                throw SystemError.make(EIO, "lseek")
            }
            extents.insert(ByteRange(start, min(end, length)))
            position = end
        }
        return extents
    }
}
