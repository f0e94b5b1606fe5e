// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Journal
internal import Platform

/// Where the names come from that readdir(3) gives.
extension FileSystem {
    /// How many names are read from the catalog at once, and how many presences.
    private static let chunk = 1000
    private static let presences = 512

    /// What presences rest on: our own changes go through the journal.
    func ground() throws(FileError) -> ListingGround {
        try translating { ListingGround(epoch: view.knowledge.epoch, journal: try journal.changeCounter()) }
    }

    func stream(of handle: DirectoryHandle, rewinding: Bool) throws(FileError) -> DirectoryStream {
        if !rewinding, let known = handle.stream.withLock({ $0 }) { return known }
        let stream = try beginStream(handle.inode)
        handle.stream.withLock { $0 = stream }
        return stream
    }

    /// Begins with the names of rows; those of the remote follow, from the catalog where its listing is young enough.
    ///
    /// The rows are read first: what is uploaded meanwhile is then in both, and not in neither.
    private func beginStream(_ folder: Inode) throws(FileError) -> DirectoryStream {
        let stream = try namespace.shared { () throws(FileError) in try streamOfRows(folder) }
        if try isLocalOnly(folder) { return stream }
        do throws(FileError) {
            guard let (run, page) = try view.beginListing(stream.path) else { return stream }
            stream.go(on: .listing)
            do throws(FileError) {
                try feed(stream, page)
            } catch {
                // Who comes next would wait for ever for a listing that nobody ends.
                try view.giveUp(run, error)
                stream.go(on: .rest)
                return stream
            }
            follow(run, into: stream)
            return stream
        } catch {
            if try isAllOfWhatIsKnown(stream.path, error) { return stream }
            throw error.isRefusalToList ? .notListed : error
        }
    }

    private func streamOfRows(_ folder: Inode) throws(FileError) -> DirectoryStream {
        let path = try path(of: folder.number)
        let ground = try ground()
        let rows = try translating { try journal.children(of: path) }
        let names = Set(rows.map { $0.path.name })
        let stream = DirectoryStream(path, rows: names, ground: ground, source: .catalog(after: nil))
        stream.append(rows.filter { !$0.isTombstone }.map(item), on: ground)
        return stream
    }

    private func item(_ row: JournalNode) -> DirectoryStream.Item {
        let type = row.attributes.mode & FileAttributes.typeMask
        return DirectoryStream.Item(name: row.path.name, type: type, presence: .row(row))
    }

    /// Takes in the rest of a listing on a thread of its own.
    private func follow(_ run: ListingRun, into stream: DirectoryStream) {
        let follow: @Sendable () -> Void = { [self] in
            var run = run
            do throws(FileError) {
                while let page = try run.takePage() { try feed(stream, page) }
                view.finish(run)
                stream.go(on: .nothing)
            } catch {
                do throws(FileError) {
                    try view.giveUp(run, error)
                    stream.go(on: .rest)
                } catch {
                    stream.go(on: .failure(error))
                }
            }
        }
        do throws(SystemError) {
            try Thread.detached(name: "listing", follow)
        } catch {
            follow()
        }
    }

    private func feed(_ stream: DirectoryStream, _ entries: [CatalogEntry]) throws(FileError) {
        let ground = try ground()
        stream.append(try items(entries, stream, ground), on: ground)
    }

    /// The names among entries of the remote that no row hides.
    private func items(
        _ entries: [CatalogEntry],
        _ stream: DirectoryStream,
        _ ground: ListingGround
    ) throws(FileError) -> [DirectoryStream.Item] {
        let rows = ground == stream.ground ? [:] : try rows(of: entries)
        var isUnknown = false
        var items: [DirectoryStream.Item] = []
        items.reserveCapacity(entries.count)
        for entry in entries {
            let name = entry.path.name
            if stream.rows.contains(name) { continue }
            var presence = Presence.remote(entry, view.validAttributes(of: entry))
            if let row = rows[name] {
                if row.isTombstone { continue }
                presence = .row(row)
            }
            if case .remote(_, nil) = presence { isUnknown = true }
            items.append(.init(name: name, type: Self.type(presence), presence: presence))
        }
        if isUnknown { view.prefetcher.expect(in: stream.path, for: stream.serial) }
        return items
    }

    /// The rows that are now under the names of entries, which are of one folder.
    private func rows(of entries: [CatalogEntry]) throws(FileError) -> [ObjectKey: JournalNode] {
        guard let folder = entries.first?.path.parent else { return [:] }
        return try translating { try journal.nodes(entries.map { $0.path.name }, in: folder) }
    }

    private static func type(_ presence: Presence) -> UInt32 {
        switch presence {
        case .absent, .link: 0
        case .row(let row): row.attributes.mode & FileAttributes.typeMask
        case .remote(let entry, _) where entry.kind == .directory: FileAttributes.directoryType
        // An object of which only a listing is known may be a symbolic link.
        case .remote(_, let attributes): (attributes?.mode ?? 0) & FileAttributes.typeMask
        }
    }

    /// Sees to it that there is a name at a place, and when asked for, what is under it on the ground that is returned;
    /// nil behind the last name.
    func prepare(
        _ stream: DirectoryStream,
        _ index: Int,
        _ folder: Inode,
        _ withStatus: Bool
    ) throws(FileError) -> ListingGround? {
        while true {
            let (count, source) = stream.progress
            if index < count {
                return withStatus ? try lookAgain(stream, index, folder) : stream.ground
            }
            switch source {
            case .nothing: return nil
            case .failure(let error): throw error
            case .listing: try stream.waitForListing(index)
            case .catalog, .rest:
                try stream.loading.withLock { _ throws(FileError) in
                    guard stream.progress.count == count else { return }
                    try knowing(folder) { () throws(FileError) in
                        try namespace.shared { () throws(FileError) in try extend(stream, folder) }
                    }
                }
            }
        }
    }

    /// Appends the next names of the catalog.
    private func extend(_ stream: DirectoryStream, _ folder: Inode) throws(FileError) {
        let path = try path(of: folder.number)
        guard case .catalog(let last) = stream.progress.source, path == stream.path else {
            // After a move, or a listing that failed half-way, places in the catalog mean nothing.
            return try appendRest(stream, path)
        }
        let ground = try ground()
        let entries = try known(path, after: last)
        let isEnd = entries.count < Self.chunk
        let source = isEnd ? DirectoryStream.Source.nothing : .catalog(after: entries.last?.path.name)
        stream.append(try items(entries, stream, ground), on: ground, then: source)
    }

    /// The next names that the catalog has of a folder; throws `unknown` when it may lack some.
    private func known(_ path: ObjectKey, after name: ObjectKey?) throws(FileError) -> [CatalogEntry] {
        try translating {
            let (entries, areAll) = try view.contents(of: path, after: name, limit: Self.chunk)
            // What was forgotten is not gone.
            guard try areAll || isLocalOnly(path) else { throw FileError.unknown }
            return entries
        }
    }

    /// Appends all names that are not in the stream yet.
    private func appendRest(_ stream: DirectoryStream, _ path: ObjectKey) throws(FileError) {
        let ground = try ground()
        let rows = try translating { try journal.children(of: path) }
        var hidden = Set(stream.names(from: 0, count: .max))
        stream.append(rows.filter { !$0.isTombstone && !hidden.contains($0.path.name) }.map(item), on: ground)
        hidden.formUnion(rows.map { $0.path.name })
        var last: ObjectKey?
        repeat {
            let entries = try known(path, after: last)
            let others = entries.filter { !hidden.contains($0.path.name) }
            stream.append(try items(others, stream, ground), on: ground)
            last = entries.count < Self.chunk ? nil : entries.last?.path.name
        } while last != nil
        stream.go(on: .nothing)
    }

    /// Reads what is under the names from a place on, unless what was read before still holds; returns its ground.
    private func lookAgain(
        _ stream: DirectoryStream,
        _ index: Int,
        _ folder: Inode
    ) throws(FileError) -> ListingGround {
        try namespace.shared { () throws(FileError) in
            let ground = try ground()
            guard let path = table.path(of: folder.number), !stream.isKnown(index, on: ground) else { return ground }
            let names = stream.names(from: index, count: Self.presences)
            let isAsBefore = ground == stream.ground && path == stream.path
            stream.know(try presences(names, path, isAsBefore ? stream.rows : nil), from: index, on: ground)
            return ground
        }
    }

    /// What is under some names of a folder; `rows`: those that may have a row of the journal, nil where any may.
    ///
    /// The rows are read first, as for the names.
    private func presences(
        _ names: [ObjectKey],
        _ folder: ObjectKey,
        _ rows: Set<ObjectKey>?
    ) throws(FileError) -> [Presence] {
        try translating {
            let local = rows.map { rows in names.filter { rows.contains($0) } } ?? names
            let nodes = local.isEmpty ? [:] : try journal.nodes(local, in: folder)
            let entries = try view.catalog.entries(names, in: folder)
            return zip(names, entries).map { name, entry in
                if let node = nodes[name] { return node.isTombstone ? .absent : .row(node) }
                guard let entry, entry.kind != .absent else {
                    return (try? presence(folder.appending(name))) ?? .absent
                }
                return .remote(entry, view.validAttributes(of: entry))
            }
        }
    }
}
