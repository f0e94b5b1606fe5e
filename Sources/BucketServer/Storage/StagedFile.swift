// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import Glibc
internal import Platform

/// Content being written where nobody sees it: a file of its own, removed when it was not given a visible name,
/// or a stretch of a file that others write to as well.
///
/// One thread at a time uses it, which is what makes the unchecked conformance right.
final class StagedFile: @unchecked Sendable {
    let file: OpenFile
    /// The number of bytes written.
    var size: Int64 { position - start }

    private let start: Int64
    private var position: Int64
    private let limit: Int64
    /// Where the file is; nil for a stretch.
    private let place: (name: ObjectKey, folder: OpenFile)?
    private var isPlaced = false
    /// Whether the content was there from the beginning.
    let isWhole: Bool

    /// Creates a file with a random name; `expected` bytes of disk are taken at once where that is possible.
    init(in folder: OpenFile, expected: Int64? = nil) throws(StorageError) {
        let name = ObjectKey(Randomness.hexadecimal(bytes: 16))
        file = try storing { () throws(SystemError) in
            try FolderCalls.createFile(name, in: folder.descriptor.raw)
        }
        place = (name, folder)
        start = 0
        position = 0
        limit = .max
        isWhole = false
        guard let expected, expected > 1 << 20 else { return }
        // Full disks show before the first byte; not all file systems can do it.
        let result = moorage_fallocate(file.descriptor.raw, moorage_FALLOC_FL_KEEP_SIZE, 0, expected)
        if result != 0, errno == ENOSPC || errno == EDQUOT { throw .insufficientStorage }
    }

    /// A stretch of at most `range.count` bytes of a file.
    init(stretch range: ByteRange, of file: OpenFile) {
        self.file = file
        place = nil
        start = range.lower
        position = range.lower
        limit = range.upper
        isWhole = false
    }

    /// Takes over a finished file of `size` bytes; it stays when it is not placed.
    init(adopting file: OpenFile, size: Int64, name: ObjectKey, folder: OpenFile) {
        self.file = file
        place = (name, folder)
        start = 0
        position = size
        limit = .max
        isPlaced = true
        isWhole = true
    }

    deinit {
        if let place, !isPlaced { try? FolderCalls.removeFile(place.name, in: place.folder.descriptor.raw) }
    }

    /// Appends bytes.
    func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        guard position + Int64(bytes.count) <= limit else { throw .system(SystemError.make(EFBIG, "pwrite")) }
        do {
            try file.descriptor.write(bytes, at: position)
        } catch {
            throw StorageError(error)
        }
        position += Int64(bytes.count)
    }

    /// Appends part of another file, inside the kernel and without copying where the file system shares blocks.
    func append(_ source: OpenFile, _ range: ByteRange) throws(StorageError) {
        guard position + range.count <= limit else { throw .system(SystemError.make(EFBIG, "copy_file_range")) }
        do {
            try file.descriptor.copy(range, of: source.descriptor, to: position)
        } catch {
            throw StorageError(error)
        }
        position += range.count
    }

    /// Gives the file its visible name, replacing what is there.
    func place(as target: ObjectKey, in targetFolder: OpenFile) throws(SystemError) {
        guard let place else { preconditionFailure("a stretch of a file cannot be renamed") }
        let source = place.folder.descriptor.raw
        try FolderCalls.rename(place.name, in: source, to: target, in: targetFolder.descriptor.raw)
        isPlaced = true
    }
}
