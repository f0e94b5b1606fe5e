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
        if random.chance(30) { try cancelHeir() }
    }

    /// Gives up what a file has become by another name, once the first, which has the newest of it, is removed.
    private func cancelHeir() throws {
        let firsts = try files.filter { path in
            try isWhollyRemote(path)
                && names(of: path).contains { name in
                    guard case .version = try journal.linkedName(at: name)?.base else { return false }
                    return name != path
                }
        }
        guard let first = random.pick(firsts) else { return }
        note("heir-of \(first)")
        try openForWriting(first)
        try writeRandomly(first)
        try seal(first)
        for _ in 0..<100 where try journal.node(at: first) != nil { try flusherStep() }
        guard try isWhollyRemote(first) else { return }
        if let target = freePath() { try linkFile(first, target) }
        guard let heir = try journal.heir(of: first) else { return }
        note("heir \(heir)")
        try unlink(first)
        if random.chance(70) { try cut(heir, all: true) }
        if open[heir] != nil { try seal(heir) }
        if random.chance(70) { try synchronizeClosed() }
        try check()
        if let row = try journal.node(at: heir), try mayCancel(row) { try cancel(row) }
    }

    /// Whether a path is the first name of a file with several, which has no change that is not at the remote.
    private func isWhollyRemote(_ path: ObjectKey) throws -> Bool {
        try journal.linkedName(at: path)?.isFirst == true && journal.node(at: path) == nil
    }

    /// Gives up a row of a file, a symbolic link or one more name of either.
    private func cancel() throws {
        let rows = try journal.pendingNodes().filter(mayCancel)
        let linked = rows.filter { names(of: $0.path).count > 1 }
        guard let row = random.pick(random.chance(60) && !linked.isEmpty ? linked : rows) else { return }
        try cancel(row)
    }

    private func cancel(_ row: JournalNode) throws {
        let (path, before, files) = (row.path, model, fileOf)
        let origins = try origins(of: row.generation)
        note("cancel \(allNames(of: path))")
        guard try journal.cancel(row.id) else { throw Failure("\(path): not cancelled") }
        let after = try seenEntries()
        try compare(before, after, without: path)
        try checkRemote(of: path, after, origins, except: Set(before.keys))
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
    }

    /// The name itself shows what the remote has there; a name that is back is one that it was moved from.
    private func checkRemote(
        of path: ObjectKey,
        _ after: [ObjectKey: Entry],
        _ origins: [ObjectKey],
        except before: Set<ObjectKey>
    ) throws {
        let hasLanded = try journal.transfers().contains { $0.transfer.key == path && landed[$0.transfer.id] != nil }
        guard hasLanded || after[path] == viewRemote(path) else {
            throw Failure("\(path): \(String(describing: after[path])) without what was cancelled")
        }
        for (other, entry) in after where other != path && !before.contains(other) && entry.content != nil {
            note("back \(other)")
            // Of several names that is the file as it is by the others.
            let isKnown = entry.content == objects[other]?.content || entry == model[path]
            guard origins.contains(other), isKnown else {
                throw Failure("\(other): \(entry) is back without \(path)")
            }
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
        // Names of one file stay together.
        let kept = before.keys.filter { $0 != path && model[$0] != nil }
        for (file, names) in Dictionary(grouping: kept, by: { before[$0] }) {
            guard names.count > 1, file != nil else { continue }
            let numbers = Set(try names.map { try journal.linkedName(at: $0)?.file })
            if numbers.count > 1 || numbers.contains(nil) { throw Failure("\(names.sorted()): split without \(path)") }
        }
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
