// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// What a listing asks for.
struct ListingRequest: Hashable, Sendable {
    var prefix: [UInt8] = []
    var delimiter: [UInt8] = []
    /// Only keys, and common prefixes, behind this one.
    var after: [UInt8] = []
    var maxKeys = 1000
}

/// One line of a listing.
enum ListedItem: Hashable, Sendable {
    case object(ObjectKey, ObjectRecord, size: Int64)
    case commonPrefix(ObjectKey)

    var key: ObjectKey {
        switch self {
        case .object(let key, _, _), .commonPrefix(let key): key
        }
    }
}

/// A page of a listing.
struct ListingPage: Hashable, Sendable {
    var items: [ListedItem] = []
    var isTruncated = false
}

/// Walks a bucket's folders in key order from the first wanted key on.
///
/// The walk opens only folders that can hold wanted keys, and keeps its own
/// stack: keys may be hundreds of folders deep and threads have small stacks.
struct ObjectLister {
    private struct Frame {
        let folder: OpenFile
        /// The keys' common beginning in this folder: empty or ending in a slash.
        let path: [UInt8]
        let listing: FolderListing
        var index: Int
    }

    private let storage: BucketStorage
    private let request: ListingRequest
    private var page = ListingPage()
    private var frames: [Frame] = []

    init(storage: BucketStorage, request: ListingRequest) {
        self.storage = storage
        self.request = request
    }

    /// Lists a bucket from its open folder.
    mutating func list(_ bucket: OpenFile) throws(StorageError) -> ListingPage {
        guard request.maxKeys > 0, try pushStart(bucket) else { return page }
        while let frame = frames.last, !page.isTruncated {
            guard frame.index < frame.listing.entries.count else {
                frames.removeLast()
                continue
            }
            frames[frames.count - 1].index += 1
            try visit(frame.listing.entries[frame.index], in: frame)
        }
        return page
    }

    /// Begins in the deepest folder that the prefix names; false when it does not exist.
    private mutating func pushStart(_ bucket: OpenFile) throws(StorageError) -> Bool {
        guard let slash = request.prefix.lastIndex(of: UInt8(ascii: "/")) else {
            try push(bucket, path: [])
            return true
        }
        let path = Array(request.prefix[...slash])
        let name = ObjectKey(bytes: Array(path.dropLast()))
        guard ObjectPath.canHold(ObjectKey(bytes: path)), let folder = try storage.openFolder(name, in: bucket) else {
            return false
        }
        // The folder's own marker has the prefix too.
        if request.prefix == path { try visitMarker(of: folder, key: path) }
        if !page.isTruncated { try push(folder, path: path) }
        return true
    }

    private mutating func push(_ folder: OpenFile, path: [UInt8]) throws(StorageError) {
        let cache = storage.folderCache
        let listing = try storing { () throws(SystemError) in try cache.listing(of: folder) }
        frames.append(Frame(folder: folder, path: path, listing: listing, index: startIndex(listing, path)))
    }

    /// The first entry that can be wanted: at or behind both the prefix and the start, or holding the start.
    private func startIndex(_ listing: FolderListing, _ path: [UInt8]) -> Int {
        max(
            listing.firstIndex(from: request.prefix.dropFirst(min(path.count, request.prefix.count))),
            listing.firstIndex(from: firstName(of: request.after, behind: path))
        )
    }

    /// The name in this folder, with its slash, on the way to a key; empty when the key is not in the folder.
    private func firstName(of key: [UInt8], behind path: [UInt8]) -> ArraySlice<UInt8> {
        guard key.starts(with: path) else { return [] }
        let rest = key.dropFirst(path.count)
        guard let slash = rest.firstIndex(of: UInt8(ascii: "/")) else { return rest }
        return rest[...slash]
    }

    private mutating func visit(_ entry: FolderListing.Entry, in frame: Frame) throws(StorageError) {
        let key = frame.path + entry.sortKey
        guard key.starts(with: request.prefix) || (entry.isFolder && request.prefix.starts(with: key)) else {
            // Sorted: behind the prefix nothing more can come, in this folder or above.
            if FolderListing.precedes(request.prefix, key) { frames.removeAll() }
            return
        }
        guard key.count <= 1024 else { return }
        if entry.isFolder {
            try visitFolder(entry, key, in: frame)
        } else {
            let storage = storage
            try emit(key) { () throws(StorageError) in try storage.object(entry.name, in: frame.folder, false) }
        }
    }

    private mutating func visitFolder(
        _ entry: FolderListing.Entry,
        _ key: [UInt8],
        in frame: Frame
    ) throws(StorageError) {
        // With the usual delimiter a folder is one line, whatever is in it.
        if request.delimiter == [UInt8(ascii: "/")], let common = commonPrefix(of: key) { return emitPrefix(common) }
        let isBeforeStart = FolderListing.precedes(key, request.after) && !request.after.starts(with: key)
        guard !isBeforeStart else { return }
        let storage = storage
        let folder = try Self.served { () throws(StorageError) in try storage.openFolder(entry.name, in: frame.folder) }
        guard let folder else { return }
        try visitMarker(of: folder, key: key)
        if !page.isTruncated { try push(folder, path: key) }
    }

    private mutating func visitMarker(of folder: OpenFile, key: [UInt8]) throws(StorageError) {
        guard let record = try storage.marker(of: folder) else { return }
        try emit(key) { () throws(StorageError) in StoredObject(record: record, size: 0, file: nil, inode: 0) }
    }

    /// Adds an object, or the common prefix it belongs to; the page is full when there is one too many.
    private mutating func emit(
        _ key: [UInt8],
        _ load: () throws(StorageError) -> StoredObject?
    ) throws(StorageError) {
        if let common = commonPrefix(of: key) { return emitPrefix(common) }
        guard FolderListing.precedes(request.after, key) else { return }
        guard page.items.count < request.maxKeys else {
            page.isTruncated = true
            return
        }
        guard let object = try Self.served(load) else { return }
        page.items.append(.object(ObjectKey(bytes: key), object.record, size: object.size))
    }

    /// What is there and may be read: what the server may not read is not served, and must not hide the rest.
    private static func served<Found>(_ find: () throws(StorageError) -> Found?) throws(StorageError) -> Found? {
        do {
            return try find()
        } catch {
            guard case .forbidden(let reason) = error else { throw error }
            Log.info("serve", "not listed: \(reason)")
            return nil
        }
    }

    private mutating func emitPrefix(_ prefix: [UInt8]) {
        // A start within the prefix still shows it; a start that is the prefix has shown it.
        let isWanted =
            FolderListing.precedes(request.after, prefix)
            || (request.after.starts(with: prefix) && request.after != prefix)
        guard isWanted, page.items.last != .commonPrefix(ObjectKey(bytes: prefix)) else { return }
        guard page.items.count < request.maxKeys else {
            page.isTruncated = true
            return
        }
        page.items.append(.commonPrefix(ObjectKey(bytes: prefix)))
    }

    /// The key up to the end of the first delimiter behind the prefix; nil when there is none.
    private func commonPrefix(of key: [UInt8]) -> [UInt8]? {
        let delimiter = request.delimiter
        guard !delimiter.isEmpty, key.count > request.prefix.count else { return nil }
        var index = request.prefix.count
        while index + delimiter.count <= key.count {
            if key[index..<(index + delimiter.count)].elementsEqual(delimiter) {
                return Array(key[..<(index + delimiter.count)])
            }
            index += 1
        }
        return nil
    }
}

extension BucketStorage {
    /// A page of the keys of a bucket in byte order; throws `noSuchBucket`.
    func list(_ bucket: ObjectKey, _ request: ListingRequest) throws(StorageError) -> ListingPage {
        let folder = try openBucket(bucket)
        var lister = ObjectLister(storage: self, request: request)
        return try lister.list(folder)
    }
}
