// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import ObjectStore
internal import Platform

/// Names of folders that the remote does not list: web servers without index pages.
extension RemoteView {
    /// Makes sure that what is known of a name is young enough: by its folder's listing, or where there is none, by
    /// asking for the name alone.
    func freshen(_ name: ObjectKey, in folder: ObjectKey) throws(FileError) {
        let path = folder.appending(name)
        if try isSeen(path, in: folder) { return }
        if listings.isUnlistable(folder, age: options.metadataAge) { return try askFor(path) }
        do throws(FileError) {
            try freshen(folder)
        } catch {
            guard error.isRefusalToList else { throw error }
            listings.noteUnlistable(folder, at: monotonicSeconds())
            try askFor(path)
        }
    }

    /// Whether a listing that is under way had this name already: nobody needs to wait for its end.
    private func isSeen(_ path: ObjectKey, in folder: ObjectKey) throws(FileError) -> Bool {
        guard let time = listings.isRunning(since: folder) else { return false }
        guard let entry = try translating({ try catalog.entry(path) }) else { return false }
        return entry.kind != .absent && entry.checkedAt >= time
    }

    /// Asks whether there is a file or folder by this path, unless that was told a short time ago.
    private func askFor(_ path: ObjectKey) throws(FileError) {
        let known = try translating { try catalog.entry(path) }
        if let known, isRecent(known.checkedAt, options.metadataAge) { return }
        do throws(FileError) {
            try find(path)
        } catch {
            // What was known of an unreachable remote still is.
            guard known != nil, case .unreachable = error else { throw error }
            Log.info("mount", "showing \(path) as it was: \(error)")
        }
    }

    private func find(_ path: ObjectKey) throws(FileError) {
        let token = try translating { try catalog.token() }
        var entry = CatalogEntry(path: path, kind: .absent, checkedAt: .now())
        if let status = try head(path) {
            entry = CatalogEntry(path: path, status, checkedAt: entry.checkedAt)
        } else if let status = try head(ObjectKey(bytes: path.bytes + [UInt8(ascii: "/")])) {
            entry.kind = .directory
            entry.metadata = status.metadata
            entry.hasMarker = true
        }
        try translating { _ = try catalog.store(entry, since: token) }
    }
}
