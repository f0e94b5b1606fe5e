// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import Glibc
internal import Platform
internal import Synchronization

/// Keeps the records of files: in an extended attribute of the file, or, where the file system has none or no
/// room for it, in a file of its own ("sidecar") that is named by the inode.
///
/// Either way the record is written before the file gets its visible name, so
/// that both appear in one step.
final class RecordStore: Sendable {
    private static let attribute = "user.moorage.object"
    private let folder: String
    /// Whether there may be sidecars at all: mostly not, and then nothing is looked up.
    private let hasSidecars: Atomic<Bool>

    /// Uses `folder`, which exists, for the sidecars.
    init(folder: String) throws(SystemError) {
        self.folder = folder
        hasSidecars = Atomic(try !Files.names(in: folder).isEmpty)
    }

    /// Reads the record of an open file or folder; nil when it has none, or none that can be read.
    func read(_ file: borrowing FileDescriptor, _ status: FileStatus) throws(SystemError) -> ObjectRecord? {
        if let value = try file.extendedAttribute(Self.attribute) { return ObjectRecord(encoded: value) }
        guard hasSidecars.load(ordering: .acquiring) else { return nil }
        let path = sidecarPath(status.inode)
        guard try FileStatus.of(path) != nil else { return nil }
        guard let record = ObjectRecord(encoded: try Files.read(path, limit: 65_536)) else { return nil }
        // A file that got the inode of one long gone must not inherit its record.
        return record.stamp == nil || record.stamp == FileStamp(status) ? record : nil
    }

    /// Writes the record of an open file or folder.
    func write(_ record: ObjectRecord, to file: borrowing FileDescriptor) throws(SystemError) {
        do {
            return try file.setExtendedAttribute(Self.attribute, record.encoded)
        } catch {
            let isRefused = [EACCES, EPERM].contains(error.code) && record.stamp != nil
            guard isRefused || [ENOTSUP, ENOSPC, E2BIG, ERANGE].contains(error.code) else { throw error }
            // Of a file of somebody else's: an attribute that is there would stay, and go before.
            if isRefused, try file.extendedAttribute(Self.attribute) != nil { throw error }
        }
        hasSidecars.store(true, ordering: .releasing)
        if try file.extendedAttribute(Self.attribute) != nil { try removeAttribute(of: file) }
        try Files.writeAtomically(sidecarPath(try file.status().inode), record.encoded)
    }

    /// Removes the record of an open file or folder.
    func remove(from file: borrowing FileDescriptor) throws(SystemError) {
        try removeAttribute(of: file)
        forget(inode: try file.status().inode)
    }

    /// Drops what is kept for a file that has been deleted or replaced.
    func forget(inode: UInt64) {
        guard hasSidecars.load(ordering: .acquiring) else { return }
        try? Files.removeIfPresent(sidecarPath(inode))
    }

    private func removeAttribute(of file: borrowing FileDescriptor) throws(SystemError) {
        if moorage_fremovexattr(file.raw, Self.attribute) != 0, errno != ENODATA, errno != ENOTSUP {
            throw SystemError.last("fremovexattr")
        }
    }

    private func sidecarPath(_ inode: UInt64) -> String { "\(folder)/\(inode)" }
}
