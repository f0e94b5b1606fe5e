// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Catalog
internal import Journal
internal import Platform
internal import Synchronization

/// Moorage's own extended attributes, which say how a file stands at the remote.
extension FileSystem {
    private static let prefix = "user.moorage."

    package func extendedAttribute(_ number: InodeNumber, _ name: ObjectKey) throws(FileError) -> [UInt8] {
        guard name.string.hasPrefix(Self.prefix) else {
            // Told that there are no ACLs and capabilities at all, programs such as ls ask once and not for every file.
            throw name.string.hasPrefix("user.") ? .noAttribute : .notSupported
        }
        let inode = try inode(number)
        let path = try path(of: number)
        switch name.string.dropFirst(Self.prefix.count) {
        case "state": return Array(try uploadState(of: inode, path).state.utf8)
        case "progress": return Array(decimal(try uploadState(of: inode, path).progress).utf8)
        case "waiting": return Array(try uploadState(of: inode, path).waiting.utf8)
        case "etag":
            let entry = try translating { try view.entry(path) }
            guard let tag = entry?.version?.entityTag else { throw .noAttribute }
            return Array(tag.fieldValue.utf8)
        default: throw .noAttribute
        }
    }

    package func setExtendedAttribute(
        _ number: InodeNumber,
        _ name: ObjectKey,
        _ value: [UInt8]
    ) throws(FileError) {
        throw name.string.hasPrefix(Self.prefix) ? .notPermitted : .notSupported
    }

    package func removeExtendedAttribute(_ number: InodeNumber, _ name: ObjectKey) throws(FileError) {
        throw name.string.hasPrefix(Self.prefix) ? .notPermitted : .noAttribute
    }

    private func uploadState(of inode: Inode, _ path: ObjectKey) throws(FileError) -> UploadState {
        let hasChanges = inode.state.withLock { $0.revision != $0.recorded }
        guard let row = try translating({ try journal.node(at: path) }) else {
            return UploadState(state: "remote", progress: 1, waiting: "")
        }
        if row.isOpen || hasChanges { return UploadState(state: "open", progress: 0, waiting: "") }
        return uploadState(path) ?? UploadState(state: "queued", progress: 0, waiting: "")
    }

    private func decimal(_ value: Double) -> String {
        let thousandths = Int(max(0, min(1, value)) * 1000)
        return "\(thousandths / 1000).\(padded(thousandths % 1000, 3))"
    }
}
