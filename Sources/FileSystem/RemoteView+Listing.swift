// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Database
internal import ObjectStore
internal import Platform

/// Listing folders, whose pages go into the catalog as they come.
extension RemoteView {
    /// Lists a folder again unless its listing is young enough.
    func freshen(_ folder: ObjectKey) throws(FileError) {
        let isShared = followCatalog()
        guard !listings.isFresh(folder, age: options.metadataAge) else { return }
        try listings.once(folder) { () throws(FileError) in
            let known = try translating { try catalog.folderState(folder) }
            if isFreshEnough(folder, known, isShared) { return }
            let epoch = catalog.epoch
            do throws(FileError) {
                try list(folder)
            } catch {
                try recover(folder, known, epoch, error)
            }
        }
    }

    /// Begins to list a folder unless its listing is young enough or somebody else lists it, which is waited for.
    ///
    /// Returns nil when the catalog has all names, else the listing with its first page in it; ``finish(_:)`` or
    /// ``giveUp(_:_:)`` end it.
    func beginListing(_ folder: ObjectKey) throws(FileError) -> (run: ListingRun, page: [CatalogEntry])? {
        let isShared = followCatalog()
        guard !listings.isFresh(folder, age: options.metadataAge) else { return nil }
        guard listings.begin(folder, at: .now()) else {
            try freshen(folder)
            return nil
        }
        do throws(FileError) {
            let known = try translating { try catalog.folderState(folder) }
            if !isFreshEnough(folder, known, isShared) { return try firstPage(of: folder, known) }
        } catch {
            listings.end(folder)
            throw error
        }
        listings.end(folder)
        return nil
    }

    private func firstPage(
        of folder: ObjectKey,
        _ known: FolderState?
    ) throws(FileError) -> (run: ListingRun, page: [CatalogEntry])? {
        let epoch = catalog.epoch
        do throws(FileError) {
            var run = try ListingRun(self, folder, known)
            let page = try run.takePage()
            return (run, page ?? [])
        } catch {
            try recover(folder, known, epoch, error)
        }
        listings.end(folder)
        return nil
    }

    /// A listing that ``beginListing(_:)`` began has come to its end.
    func finish(_ run: ListingRun) { listings.end(run.folder) }

    /// A listing that ``beginListing(_:)`` began has failed; throws unless the folder is shown as it was.
    func giveUp(_ run: ListingRun, _ error: FileError) throws(FileError) {
        defer { listings.end(run.folder) }
        run.abandon()
        try recover(run.folder, run.known, run.epoch, error)
    }

    /// After a listing failed: lists once more when the catalog's file was deleted in between, else goes on with what
    /// is known.
    private func recover(
        _ folder: ObjectKey,
        _ known: FolderState?,
        _ epoch: Int,
        _ error: FileError
    ) throws(FileError) {
        do throws(FileError) {
            guard catalog.epoch != epoch else { throw error }
            try list(folder)
        } catch {
            try keepShowing(folder, known, error)
        }
    }

    private func isFreshEnough(_ folder: ObjectKey, _ known: FolderState?, _ isShared: Bool) -> Bool {
        let age = options.metadataAge
        if listings.isFresh(folder, age: age) { return true }
        guard let known, isShared, !listings.isKnown(folder), isRecent(known.listedAt, age) else { return false }
        listings.note(folder, at: monotonicSeconds(), cost: 0)
        return true
    }

    /// Goes on with what is known of a folder that could not be listed; throws when it never was.
    private func keepShowing(_ folder: ObjectKey, _ known: FolderState?, _ error: FileError) throws(FileError) {
        guard known != nil, !error.isInterrupted else { throw error }
        Log.info("mount", "showing \(folder) as it was: \(error)")
        // Do not ask again for every name of the folder.
        let age = options.metadataAge
        listings.note(folder, at: monotonicSeconds() - age + min(2, age), cost: 0, isStale: true)
    }

    private func list(_ folder: ObjectKey) throws(FileError) {
        var run = try ListingRun(self, folder, nil)
        while try run.takePage() != nil {}
    }
}

/// A folder's listing under way.
struct ListingRun: Sendable {
    let folder: ObjectKey
    /// What was known of the folder before.
    let known: FolderState?
    private let view: RemoteView
    private let began = monotonicSeconds()
    private let time = Timestamp.now()
    /// The catalog's, when it began.
    let epoch: Int
    private let token: CatalogToken
    private let pages: PagesAhead
    private var summary = ListingSummary()

    init(_ view: RemoteView, _ folder: ObjectKey, _ known: FolderState?) throws(FileError) {
        self.view = view
        self.folder = folder
        self.known = known
        epoch = view.catalog.epoch
        token = try translating { try view.catalog.beginListing() }
        let remote = view.remote
        pages = PagesAhead { continuation, foretell throws(StoreError) in
            try remote.call { store throws(StoreError) in
                try store.list(folder, recursive: false, continuation: continuation, foretell: foretell)
            }
        }
    }

    /// Has no further page asked for.
    func abandon() { pages.abandon() }

    /// Takes in the next page and returns what is under its names now; nil behind the last, when the listing counts.
    mutating func takePage() throws(FileError) -> [CatalogEntry]? {
        do throws(FileError) {
            return try translating {
                if let page = try pages.next() {
                    return try view.catalog.apply(
                        page,
                        of: folder,
                        token,
                        at: time,
                        refreshed: view.refreshTime,
                        summary: &summary
                    )
                }
                try view.catalog.finishListing(of: folder, token, summary, at: time)
                view.listings.note(folder, at: began, cost: monotonicSeconds() - began)
                return nil
            }
        } catch {
            abandon()
            throw error
        }
    }
}
