// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Database
internal import Journal
internal import ObjectStore
internal import Platform

/// Whole trees, for moving a folder with everything in it.
extension RemoteView {
    /// Learns everything the remote has below a folder, with its attributes.
    func learnTree(_ folder: ObjectKey) throws(FileError) {
        let began = monotonicSeconds()
        let time = Timestamp.now()
        let token = try translating { try catalog.beginListing() }
        var tree = ListedTree(folder)
        var continuation: String?
        var progress = ListingProgress()
        repeat {
            let page = try translating {
                try remote.call { store throws(StoreError) in
                    try store.list(folder, recursive: true, continuation: continuation)
                }
            }
            for entry in page.entries { tree.add(entry) }
            guard progress.leadsOn(page) else {
                throw .remote(StoreError(.protocolViolation, "the listing of \(folder) does not go on"))
            }
            continuation = page.next
        } while continuation != nil
        try translating {
            // A folder's own listing tells more of it than that of the folder it is in.
            for (path, page) in tree.pages.sorted(by: { $0.key < $1.key }) {
                var summary = ListingSummary()
                try catalog.apply(page, of: path, token, at: time, summary: &summary)
                try catalog.finishListing(of: path, token, summary, at: time)
                listings.note(path, at: began, cost: 0)
            }
        }
        try describeTree(folder)
    }

    /// Asks for the attributes that a listing does not tell, of a folder and everything below it.
    private func describeTree(_ folder: ObjectKey) throws(FileError) {
        let own = try translating { try entry(folder) }
        let below = try translating { try catalog.descendants(of: folder) }
        for entry in below + [own].compactMap({ $0 }) where entry.kind != .absent && !isDescribed(entry) {
            try describe(entry.path)
        }
    }
}

/// A recursive listing taken apart into the listings of its folders.
struct ListedTree {
    private let root: ObjectKey
    private(set) var pages: [ObjectKey: ListingPage]

    init(_ root: ObjectKey) {
        self.root = root
        pages = [root: ListingPage(entries: [], folders: [], next: nil)]
    }

    mutating func add(_ entry: ListingPage.Entry) {
        let isMarker = entry.key.bytes.last == UInt8(ascii: "/")
        let folder = isMarker ? ObjectKey(bytes: Array(entry.key.bytes.dropLast())) : entry.key.parent
        guard folder.isInside(root) else { return }
        addFolder(folder)
        pages[folder]?.entries.append(entry)
    }

    /// Adds a folder and those between it and the root.
    private mutating func addFolder(_ folder: ObjectKey) {
        var path = folder
        while path != root, pages[path] == nil {
            pages[path] = ListingPage(entries: [], folders: [], next: nil)
            let parent = path.parent
            addParent(parent)
            pages[parent]?.folders.append(path)
            path = parent
        }
    }

    private mutating func addParent(_ folder: ObjectKey) {
        if folder != root, pages[folder] == nil { addFolder(folder) }
    }
}
