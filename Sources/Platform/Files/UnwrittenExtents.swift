// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc

/// What a file system keeps as unwritten of a file although it was written, and how it becomes written.
///
/// After a write that the disk refused, ext4 has given the pages their blocks in memory and not in the file, where the
/// extent stays unwritten. The same pages written once more reach these blocks, fsync(2) succeeds, and after the next
/// boot they read as zeros (seen with Linux 6.18). Only what goes past the page cache completes the extent.
package struct UnwrittenExtents: Sendable {
    /// Whether a file has any; false where the file system does not tell (ioctl_fiemap(2)).
    package var exist: Call<Bool>
    /// Writes them, with what the file reads as: for a file that nobody else writes to or reads meanwhile.
    ///
    /// The file may become longer, by zeros up to a multiple of 4,096 bytes. Fails with `EIO` when extents remain.
    package var complete: Call<Void>

    /// A call for the file that a path leads to, which fails with `ESTALE` when that is another one by then.
    package typealias Call<Result> = @Sendable (_ path: String, _ file: FileStatus) throws(SystemError) -> Result

    package init(exist: @escaping Call<Bool>, complete: @escaping Call<Void>) {
        self.exist = exist
        self.complete = complete
    }

    /// Those of the system's files.
    package static let system = UnwrittenExtents(exist: find, complete: writeAll)

    /// Whether a file of the system has any; see ``exist``.
    package static func find(_ path: String, _ status: FileStatus) throws(SystemError) -> Bool {
        do throws(SystemError) {
            return try apart { () throws(SystemError) in
                let file = try open(path, O_RDONLY, status)
                return try next(file, 0..<file.status().size) != nil
            }
        } catch {
            // Before Linux 5.9, and where a filter of system calls keeps it away, there is no telling.
            guard error.operation == "close_range", error.code == ENOSYS || error.code == EPERM else { throw error }
            return false
        }
    }

    /// Writes those of a file of the system; see ``complete``.
    package static func writeAll(_ path: String, _ status: FileStatus) throws(SystemError) {
        _ = try apart { () throws(SystemError) in
            try write(path, status)
            return true
        }
    }

    private static func open(
        _ path: String,
        _ flags: Int32,
        _ status: FileStatus
    ) throws(SystemError) -> FileDescriptor {
        let file = try FileDescriptor.open(path, flags | O_NOFOLLOW)
        let found = try file.status()
        guard found.device == status.device, found.inode == status.inode else {
            throw SystemError.make(ESTALE, "open", path)
        }
        return file
    }

    private static let unit: Int64 = 4096
    /// As much as is in no memory but ours while it is written.
    private static let block: Int64 = 1 << 16

    /// Writes what is unwritten; what a write-back is about to complete only seems to be.
    private static func write(_ path: String, _ status: FileStatus) throws(SystemError) {
        let file = try open(path, O_RDWR, status)
        // The failure that has left them may not have been told of yet.
        _ = try? file.synchronizeData()
        for attempt in 0..<3 {
            let end = try file.status().size
            guard var extent = try next(file, 0..<end) else { return }
            let direct = try open(path, O_WRONLY | moorage_O_DIRECT, status)
            while true {
                let first = extent.lowerBound / unit * unit
                let last = (extent.upperBound + unit - 1) / unit * unit
                for position in stride(from: first, to: last, by: Int(block)) {
                    try write(position..<min(position + block, last), of: file, past: direct, isFirst: attempt == 0)
                }
                guard last < end, let further = try next(file, last..<end) else { break }
                extent = further
            }
            try file.synchronizeData()
        }
        guard try next(file, 0..<file.status().size) == nil else {
            throw SystemError.make(EIO, "write past the cache", path)
        }
    }

    private static func write(
        _ range: Range<Int64>,
        of file: borrowing FileDescriptor,
        past direct: borrowing FileDescriptor,
        isFirst: Bool
    ) throws(SystemError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: range.count, alignment: Int(unit))
        defer { buffer.deallocate() }
        let count = try file.read(into: buffer, at: range.lowerBound)
        for index in count..<buffer.count { buffer[index] = 0 }
        // Where the file system writes through the page cache all the same, the pages are to be given their blocks anew.
        // Not at once: until they are written, no process must end.
        if !isFirst { posix_fadvise(file.raw, Int(range.lowerBound), range.count, POSIX_FADV_DONTNEED) }
        do throws(SystemError) {
            try direct.write(UnsafeRawBufferPointer(buffer), at: range.lowerBound)
        } catch {
            // The page cache has let go of it.
            try file.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]), at: range.lowerBound)
            throw error
        }
    }

    private static func next(
        _ file: borrowing FileDescriptor,
        _ range: Range<Int64>
    ) throws(SystemError) -> Range<Int64>? {
        var start: UInt64 = 0
        var count: UInt64 = 0
        let result = moorage_unwritten_extent(
            file.raw,
            UInt64(range.lowerBound),
            UInt64(range.upperBound),
            &start,
            &count
        )
        guard result >= 0 else { throw SystemError.last("ioctl_fiemap") }
        return result == 0 ? nil : Int64(start)..<Int64(start + count)
    }

    /// The result of `body` on a thread with descriptors of its own, beside the standard streams.
    ///
    /// A descriptor that is closed takes all of the process's locks of its file with it (fcntl_locking(2)); the kernel
    /// takes such a thread for another holder of locks.
    private static func apart(
        _ body: @escaping @Sendable () throws(SystemError) -> Bool
    ) throws(SystemError) -> Bool {
        let result = Monitor<Result<Bool, SystemError>>(.success(false))
        let thread = try Thread(name: "extents") {
            guard moorage_own_descriptors() == 0 else {
                let error = SystemError.last("close_range")
                return result.update { $0 = .failure(error) }
            }
            let outcome = Result { () throws(SystemError) in try body() }
            result.update { $0 = outcome }
        }
        thread.join()
        return try result.inspect { $0 }.get()
    }
}
