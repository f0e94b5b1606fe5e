// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import BlockCache
internal import Catalog
internal import Journal
internal import Platform
internal import Synchronization

/// Moorage's own extended attributes, which say how a file stands at the remote, and pin it.
extension FileSystem {
    private static let prefix = "user.moorage."
    private static let pin = "user.moorage.pin"

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
        case "pin":
            let list = pins.load()
            if list.contains(path) { return Array("1".utf8) }
            guard list.covers(path) else { throw .noAttribute }
            return Array("inherited".utf8)
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
        guard name.string == Self.pin else {
            throw name.string.hasPrefix(Self.prefix) ? .notPermitted : .notSupported
        }
        switch String(decoding: value, as: UTF8.self) {
        case "1": _ = try changePins(number) { $0.insert($1) }
        case "0": _ = try changePins(number) { $0.remove($1) }
        default: throw .invalidArgument
        }
    }

    /// Changes the pins at an inode's path; false when nothing was to be changed.
    private func changePins(
        _ number: InodeNumber,
        _ body: (inout PinList, ObjectKey) -> Bool
    ) throws(FileError) -> Bool {
        let path = try path(of: number)
        do throws(SystemError) {
            return try pins.change { body(&$0, path) }
        } catch {
            throw .system(error)
        }
    }

    package func removeExtendedAttribute(_ number: InodeNumber, _ name: ObjectKey) throws(FileError) {
        if name.string == Self.pin {
            guard try changePins(number, { $0.remove($1) }) else { throw .noAttribute }
            return
        }
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
