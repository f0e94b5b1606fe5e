// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// The names in a folder in the order of the keys they stand for: a folder sorts as its name with a slash.
struct FolderListing: Sendable {
    struct Entry: Sendable {
        let name: ObjectKey
        let isFolder: Bool
        /// The name, with a slash behind that of a folder.
        let sortKey: [UInt8]
    }

    let entries: [Entry]

    init(_ entries: [FolderCalls.Entry]) {
        self.entries = entries.compactMap { entry in
            guard entry.name.validated != nil else { return nil }
            let slash = entry.isFolder ? [UInt8(ascii: "/")] : []
            return Entry(name: entry.name, isFolder: entry.isFolder, sortKey: entry.name.bytes + slash)
        }.sorted { Self.precedes($0.sortKey, $1.sortKey) }
    }

    /// The index of the first entry at or behind `key`.
    func firstIndex(from key: some Collection<UInt8>) -> Int {
        let key = Array(key)
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if Self.precedes(entries[middle].sortKey, key) { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Byte order, in memcmp's speed: sorting is most of the cost of a large folder.
    static func precedes(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        let order = memcmp(left, right, min(left.count, right.count))
        return order == 0 ? left.count < right.count : order < 0
    }
}

/// Remembers the sorted names of large folders while they do not change, so that paging through them is cheap.
final class FolderListingCache: Sendable {
    private struct Cached {
        let modified: Int64
        let changed: Int64
        let listing: FolderListing
    }
    private struct State {
        var folders: [UInt64: Cached] = [:]
        var entryCount = 0
    }

    private static let smallestFolder = 256
    private static let largestCount = 400_000
    private let state = Lock(State())

    /// The present names of a folder.
    func listing(of folder: OpenFile) throws(SystemError) -> FolderListing {
        let status = try folder.descriptor.status()
        let known = state.withLock { $0.folders[status.inode] }
        if let known, known.modified == status.modified.nanoseconds, known.changed == status.changed.nanoseconds {
            return known.listing
        }
        // The kernel's clock for files ticks every few milliseconds: names could change again within a tick.
        let isSettled = Timestamp.now().nanoseconds - status.changed.nanoseconds > 50_000_000
        let listing = FolderListing(try FolderCalls.entries(of: folder))
        if isSettled, listing.entries.count >= Self.smallestFolder { remember(listing, status) }
        return listing
    }

    private func remember(_ listing: FolderListing, _ status: FileStatus) {
        state.withLock { state in
            let old = state.folders.removeValue(forKey: status.inode)
            state.entryCount += listing.entries.count - (old?.listing.entries.count ?? 0)
            if state.entryCount > Self.largestCount { state = State(entryCount: listing.entries.count) }
            state.folders[status.inode] = Cached(
                modified: status.modified.nanoseconds,
                changed: status.changed.nanoseconds,
                listing: listing
            )
        }
    }
}
