// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
internal import Platform

/// Objects as plain files in folders: `DIRECTORY/BUCKET/key`.
///
/// A write becomes visible in one rename of a file that was written, with its
/// record, in `DIRECTORY/.moorage` and made durable. Conditions are checked and
/// the rename done under a lock of the key. Lock order: key lock, then
/// `structure`; neither is held while content is moved.
package final class BucketStorage: Sendable {
    /// The folder that is served.
    package let directory: String
    /// The server's own folder in it.
    package var privateDirectory: String { directory + "/" + Self.privateName }
    /// Whether acknowledged writes are made durable with fsync.
    package let syncs: Bool

    static let privateName = ".moorage"

    /// The mode of new files under the process's umask.
    ///
    /// Not asked from umask(2), which tells by changing it: threads that make files at that moment would notice,
    /// and two that ask at once might leave it changed.
    let fileMode: mode_t

    let root: OpenFile
    let temporary: OpenFile
    let uploads: OpenFile
    let records: RecordStore
    let keyLocks = StripedLocks()
    /// Held while markers are made and empty folders removed.
    let structure = Lock<Void>(())
    let folderCache = FolderListingCache()
    let activeUploads = ActiveUploads()
    /// Keeps a second server off the same folder.
    private let lock: FileLock

    /// Opens the folder, which must exist, and clears what a crash left half-written.
    ///
    /// Throws EBUSY when another server has it.
    package init(directory: String, syncs: Bool) throws(SystemError) {
        self.directory = directory
        self.syncs = syncs
        fileMode = 0o666 & ~Self.umask()
        let base = directory + "/" + Self.privateName
        root = OpenFile(try FileDescriptor.open(directory, O_RDONLY | O_DIRECTORY))
        for name in ["", "/temporary", "/uploads", "/records"] { try Files.makeDirectories(base + name) }
        guard let lock = try FileLock(acquiring: base + "/lock") else {
            throw SystemError(
                code: EBUSY,
                operation: "lock",
                subject: directory,
                reason: "another moorage serve has it"
            )
        }
        self.lock = lock
        temporary = OpenFile(try FileDescriptor.open(base + "/temporary", O_RDONLY | O_DIRECTORY))
        uploads = OpenFile(try FileDescriptor.open(base + "/uploads", O_RDONLY | O_DIRECTORY))
        records = try RecordStore(folder: base + "/records")
        for entry in try FolderCalls.entries(of: temporary) where !entry.isFolder {
            try FolderCalls.removeFile(entry.name, in: temporary.descriptor.raw)
        }
    }

    /// The umask as proc(5) shows it; the usual one where it cannot be read.
    private static func umask() -> mode_t {
        let lines = ((try? Files.read("/proc/self/status")) ?? []).split(separator: UInt8(ascii: "\n"))
        let line = lines.first { $0.starts(with: "Umask:".utf8) }
        let digits = line?.drop { !(0x30...0x37).contains($0) }
        return digits.flatMap { mode_t(String(decoding: $0, as: UTF8.self), radix: 8) } ?? 0o022
    }

    /// Makes a file's content and record durable; fdatasync(2) would leave the record out.
    func synchronize(_ file: OpenFile) throws(StorageError) {
        guard syncs else { return }
        try storing { () throws(SystemError) in try file.descriptor.synchronize() }
    }

    /// Makes the names in a folder durable.
    func synchronizeFolder(_ folder: OpenFile) throws(StorageError) {
        guard syncs else { return }
        try storing { () throws(SystemError) in try folder.descriptor.synchronize() }
    }
}

/// Locks for more names than there are locks: two names may share one, one name always has the same.
final class StripedLocks: Sendable {
    private final class Stripe: Sendable {
        let lock = Lock<Void>(())
    }

    private let stripes = (0..<128).map { _ in Stripe() }

    /// Runs `body` alone among all that use the same name.
    func withLock<Result, Failure: Error>(
        _ name: some Hashable,
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let stripe = stripes[Int(UInt(bitPattern: name.hashValue) % UInt(stripes.count))]
        return try stripe.lock.withLock { _ throws(Failure) in try body() }
    }
}
