// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Glibc
internal import Platform

extension Journal {
    /// Writes content anew that the disk failed to write and a person accepted as it reads now, into another file,
    /// which takes the old one's name once it is on the disk.
    ///
    /// The generation must be in transfer: nobody writes to it then. When it fails the content is in doubt as before,
    /// and its row waits for a person again.
    package func rewriteAccepted(_ id: GenerationID) throws(JournalError) {
        guard let generation = try generation(id), generation.doubt == .accepted else { return }
        let checksums: ChecksumList
        do throws(SystemError) {
            checksums = try rewriteStaging(of: generation)
        } catch {
            try noteFailedSync(of: [id])
            throw JournalError(system: error)
        }
        try write(durable: true) { tables throws(JournalError) in
            let current = try tables.generation(id)
            guard let current, current.isSealed, current.doubt == .accepted, try tables.isInTransfer(id) else {
                throw JournalError(.notFound, "journal: generation \(id) is not in transfer")
            }
            try tables.connection.run("UPDATE generation SET doubt = 0 WHERE id = ?", [.integer(id.value)])
            try tables.noteSynced(id)
            // What was known of the bytes before does not count: a person took them as they are.
            try tables.store(checksums, of: id)
            try tables.set(.complete, of: current)
        }
    }

    private func rewriteStaging(of generation: Generation) throws(SystemError) -> ChecksumList {
        let path = stagingPath(generation.id)
        guard let old = try StagingFile(path) else { throw SystemError.make(ENOENT, "open", path) }
        let new = path + Self.rewritten
        try Files.removeIfPresent(new)
        let source = try FileDescriptor.open(path, O_RDONLY | O_NOFOLLOW)
        let target = try FileDescriptor.open(new, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW)
        for range in old.data.ranges { try Self.copy(range, source, target) }
        try target.truncate(to: old.length)
        try synchronizeData(target)
        try Files.rename(new, to: path)
        try synchronizeStagingDirectory()
        var checksums = ChecksumList()
        var budget = Int64.max
        _ = try checksums.complete(generation.content.extents, from: target, budget: &budget)
        return checksums
    }

    private static func copy(
        _ range: ByteRange,
        _ source: borrowing FileDescriptor,
        _ target: borrowing FileDescriptor
    ) throws(SystemError) {
        var chunk = [UInt8](repeating: 0, count: Int(min(range.count, 1 << 20)))
        var offset = range.lower
        while offset < range.upper {
            let wanted = Int(min(Int64(chunk.count), range.upper - offset))
            let position = Int(offset)
            let count = try retryingOnInterrupt("pread") {
                chunk.withUnsafeMutableBytes { pread(source.raw, $0.baseAddress, wanted, position) }
            }
            guard count > 0 else { throw SystemError.make(EIO, "pread", "staging file shorter than it was") }
            try Self.write(chunk[..<count], to: target, at: offset)
            offset += Int64(count)
        }
    }

    private static func write(
        _ bytes: ArraySlice<UInt8>,
        to target: borrowing FileDescriptor,
        at offset: Int64
    ) throws(SystemError) {
        var done = 0
        while done < bytes.count {
            done += try retryingOnInterrupt("pwrite") {
                bytes.withUnsafeBytes {
                    pwrite(target.raw, $0.baseAddress.map { $0 + done }, $0.count - done, Int(offset) + done)
                }
            }
        }
    }

    /// What the name of a file that is being written anew ends with.
    static let rewritten = ".again"
}
