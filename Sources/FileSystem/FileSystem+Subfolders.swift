// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Journal
internal import Platform

/// How many folders are in a folder, from one listing of it on.
struct SubfolderCount: Sendable {
    /// When that listing began, in monotonic seconds.
    var listedAt: Double
    /// nil: there are more names than are worth being looked at.
    var count: Int?
}

/// Counting the folders in a folder, which stat(2) tells as its links.
///
/// fts(3), and so find(1), looks at no more names of a folder once it has met as many folders as there are links for.
/// A number that is too small would hide folders from it, so there is one only while the names are those of a listing
/// that counts for longer than the kernel keeps the number; else the number says "unknown".
extension FileSystem {
    /// How many names are looked at to find the folders among them, once a listing.
    private static let subfolderLimit = 1_000

    /// How long a listing has to count still, in seconds: as long as the kernel keeps the number, and who asked for
    /// it needs to open the folder.
    private var subfolderMargin: Double { options.kernelAge + 1 }

    /// What stat(2) tells, of a folder with the number of those in it.
    ///
    /// The namespace is not locked.
    func statusWithSubfolders(of inode: Inode) -> InodeStatus {
        var status = status(of: inode)
        if inode.kind == .directory, let path = table.path(of: inode.number) {
            status.subfolders = knownSubfolders(of: inode, at: path) { listedAt in
                namespace.shared { count(inode, listedAt) }
            }
        }
        return status
    }

    /// The number where nobody has to look for it.
    func rememberedSubfolders(of inode: Inode, at path: ObjectKey) -> Int? {
        inode.kind == .directory ? knownSubfolders(of: inode, at: path) { _ in nil } : nil
    }

    private func knownSubfolders(of inode: Inode, at path: ObjectKey, _ count: (Double) -> Int?) -> Int? {
        guard let listedAt = view.listingTime(of: path, margin: subfolderMargin) else { return nil }
        let (known, isDetached) = inode.state.withLock { ($0.subfolders, $0.isDetached) }
        if isDetached { return nil }
        if let known, known.listedAt == listedAt { return known.count }
        return count(listedAt)
    }

    /// Counts the folders among the names known; the namespace is locked, so no name comes or goes meanwhile.
    private func count(_ inode: Inode, _ listedAt: Double) -> Int? {
        guard let path = table.path(of: inode.number),
            view.listingTime(of: path, margin: subfolderMargin) == listedAt
        else { return nil }
        let count = try? countNames(in: path)
        inode.state.withLock { $0.subfolders = SubfolderCount(listedAt: listedAt, count: count) }
        return count
    }

    private func countNames(in path: ObjectKey) throws -> Int? {
        // What the flusher finishes in between is in both.
        guard let rows = try journal.names(in: path, limit: Self.subfolderLimit),
            let remote = try view.catalog.subfolders(of: path, limit: Self.subfolderLimit)
        else { return nil }
        return rows.values.filter { $0 }.count + remote.filter { rows[$0] == nil }.count
    }
}

extension RemoteView {
    /// When the listing of a folder began that counts for `margin` seconds more; nil when there is none.
    func listingTime(of folder: ObjectKey, margin: Double) -> Double? {
        _ = followCatalog()
        return listings.time(of: folder, age: options.metadataAge, margin: margin)
    }
}

extension Inode {
    /// A folder came into this one, or left it.
    func noteSubfolders(_ change: Int) {
        state.withLock { state in
            if let count = state.subfolders?.count { state.subfolders?.count = count + change }
        }
    }
}
