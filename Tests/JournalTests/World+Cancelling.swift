// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Journal
import TestSupport

/// Giving up what is not remote yet, as `moorage uploads cancel` does.
///
/// The name that is given up shows what the remote has there. What no other file loses by that, and no other name of the same
/// file, is what is looked at here.
extension World {
    /// Gives something up now and then; most of what can go wrong takes several names.
    func cancelStep() throws {
        if random.chance(12) { try linkFile() }
        if random.chance(8) { try cancel() }
    }

    /// Gives up a row of a file, a symbolic link or one more name of either.
    private func cancel() throws {
        let rows = try journal.pendingNodes().filter(mayCancel)
        let linked = rows.filter { names(of: $0.path).count > 1 }
        guard let row = random.pick(random.chance(60) && !linked.isEmpty ? linked : rows) else { return }
        let (path, before, files) = (row.path, model, fileOf)
        note("cancel \(allNames(of: path))")
        guard try journal.cancel(row.id) else { throw Failure("\(path): not cancelled") }
        let after = try seenEntries()
        try compare(before, after, without: path)
        model = after
        try regroup(files, without: path)
    }

    /// Not where a request is under way that the remote may carry out yet, nor where a name would come back in a folder
    /// that is gone.
    private func mayCancel(_ row: JournalNode) throws -> Bool {
        switch row.kind {
        case .file, .symbolicLink, .hardLink: break
        case .tombstone, .directory: return false
        }
        // Of a folder that it replaces this would know as little as of one that others made.
        guard !row.isOpen, open[row.path] == nil, !row.hasRemoteDirectory, !isImplied(row.path) else { return false }
        let touched = try [row.path] + origins(of: row.generation)
        let commits = try journal.transfers().map(\.transfer).filter { $0.phase == .committing }
        let underWay = commits.filter { landed[$0.id] == nil }.map(\.key) + puttingMarkers.map(\.path)
        return touched.allSatisfy { isInFolder($0) && !underWay.contains($0) }
    }

    /// The objects that a content began with.
    private func origins(of generation: Generation?) throws -> [ObjectKey] {
        var (result, next): ([ObjectKey], Generation?) = ([], generation)
        while let current = next {
            next = nil
            if let origin = current.origin { result.append(origin.key) }
            switch current.underlay {
            case .none: break
            case .remote(let key, _): result.append(key)
            case .generation(let below): next = try journal.generation(below)
            }
        }
        return result
    }

    private func isInFolder(_ path: ObjectKey) -> Bool {
        ancestors(of: path).allSatisfy { if case .directory = model[$0] { true } else { false } }
    }

    private func seenEntries() throws -> [ObjectKey: Entry] {
        var result: [ObjectKey: Entry] = [:]
        for path in try visiblePaths().union(model.keys) { result[path] = try view(path) }
        return result
    }

    /// Other files are as they were; other names of the same one are, or are what the file was at the remote.
    private func compare(
        _ before: [ObjectKey: Entry],
        _ after: [ObjectKey: Entry],
        without path: ObjectKey
    ) throws {
        for (other, entry) in before where other != path && after[other] != entry {
            let isUndone = fileOf[other].map { $0 == fileOf[path] && committed[$0] == after[other]?.content } ?? false
            guard isUndone else {
                let seen = String(describing: after[other])
                throw Failure("\(other): \(seen) instead of \(entry) without \(path)")
            }
            note("undone \(other)")
        }
        for (other, entry) in after where before[other] == nil && entry.content != nil {
            note("back \(other)")
        }
    }

    /// Learns which names are of one file now; none is of another than before.
    private func regroup(_ before: [ObjectKey: Int], without path: ObjectKey) throws {
        var groups: [Int64: [ObjectKey]] = [:]
        var single: [[ObjectKey]] = []
        for other in filesAndLinks {
            guard let link = try journal.linkedName(at: other) else {
                single.append([other])
                continue
            }
            groups[link.file, default: []].append(other)
        }
        fileOf = [:]
        var given = Set<Int>()
        let ordered = (Array(groups.values) + single).sorted { one, two in
            one.count == two.count ? one[0] < two[0] : one.count > two.count
        }
        for names in ordered {
            let old = Set(names.compactMap { $0 == path ? nil : before[$0] })
            guard old.count <= 1 else { throw Failure("\(names): names of several files without \(path)") }
            var file = newFile()
            if let known = old.first, given.insert(known).inserted { file = known } else { note("another \(names[0])") }
            for name in names { fileOf[name] = file }
            if committed[file] == nil { committed[file] = names.compactMap { objects[$0]?.content }.first }
        }
    }

    /// The number of a file that is new.
    func newFile() -> Int {
        lastFile += 1
        return lastFile
    }
}

extension World.Entry {
    /// The bytes of the object that it is; nil for a folder.
    var content: [UInt8]? {
        switch self {
        case .file(let content, _): content
        case .link(let target, _): target.bytes
        case .directory: nil
        }
    }
}
