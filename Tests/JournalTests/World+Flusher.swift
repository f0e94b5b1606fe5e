// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Journal
import Platform
import TestSupport

extension World {
    /// Does one random thing as the flusher does it, when it is possible.
    func flusherStep() throws {
        switch random.below(10) {
        case 0...3: try transferStep()
        case 4...7: try nodeStep()
        case 8: try markerStep()
        case 9 where random.chance(50): try synchronizeClosed()
        default: try release()
        }
    }

    /// The group sync, with or without time to look at the bytes.
    func synchronizeClosed() throws {
        if random.chance(50) { try journal.synchronizeSealed() }
        try journal.markSynced(try journal.unsyncedGenerations())
        if random.chance(50) { try journal.completeChecksums() }
    }

    // MARK: rows

    private func nodeStep() throws {
        guard let node = random.pick(try journal.pendingNodes()), node.schedule.attention == nil else { return }
        // The flusher never has two requests for one key in flight.
        if puttingMarkers.contains(where: { $0.path == node.path }) { return }
        let blockers = try journal.blockers(of: node)
        switch node.kind {
        case .tombstone where blockers.isEmpty: try delete(node)
        case .directory where blockers.isEmpty: try putDirectory(node)
        case .file, .symbolicLink: try begin(node, blockers)
        case .hardLink where blockers.isEmpty:
            if !keepsOlderCopies || random.chance(30) { try copyLink(node) }
        default: break
        }
    }

    private func delete(_ node: JournalNode) throws {
        if node.base != .absent {
            try deleteObject(node)
        } else if node.hasRemoteDirectory {
            note("delete-marker \(node.path)")
            if losesPower { try journal.makeDurable() }
            markers[node.path] = nil
            if random.chance(80) { try journal.completeDirectoryRemoval(at: node.path) }
        }
    }

    private func deleteObject(_ node: JournalNode) throws {
        note("delete \(node.path)")
        if losesPower { try journal.makeDurable() }
        if let object = objects[node.path] {
            guard case .version(let base) = node.base, object.version.isSame(as: base) else {
                throw Failure("\(node.path): \(object.version) would be deleted as \(node.base)")
            }
            objects[node.path] = nil
        }
        if random.chance(80) { try journal.completeObjectRemoval(at: node.path) }
    }

    private func putDirectory(_ node: JournalNode) throws {
        if node.base != .absent { return try deleteObject(node) }
        note("begin-marker \(node.path)")
        if let begun = try journal.beginDirectory(node) { puttingMarkers.append(begun) }
    }

    private func markerStep() throws {
        guard !puttingMarkers.isEmpty else { return }
        let node = puttingMarkers.remove(at: random.below(puttingMarkers.count))
        note("put-marker \(node.path)")
        // As the note of the request is.
        if losesPower { try journal.makeDurable() }
        try checkFolders(above: node.path)
        if objects[node.path] != nil { throw Failure("\(node.path): a marker beside an object") }
        markers[node.path] = node.attributes
        if random.chance(80) { try journal.completeDirectory(node) }
    }

    private func checkFolders(above path: ObjectKey) throws {
        for folder in ancestors(of: path) where objects[folder] != nil {
            throw Failure("\(path) would be below the object \(folder)")
        }
    }

    private func begin(_ node: JournalNode, _ blockers: [Blocker]) throws {
        let mayBegin = blockers.allSatisfy { blocker in
            switch blocker {
            case .source, .arrival, .ancestor, .descendant: true
            default: false
            }
        }
        guard mayBegin else { return }
        if node.hasRemoteDirectory, blockers.isEmpty { return try deleteMarker(node) }
        let isCopy = node.generation?.wholeRemote != nil && blockers.isEmpty
        if let transfer = try journal.beginTransfer(of: node, method: isCopy ? .copy : .put) {
            // A copy by one more name is nothing that the file has not had before.
            let file = try journal.linked(at: node.path) == nil ? fileOf[node.path] : nil
            sent[transfer.id] = (node.attributes, node.target, file)
            note("begin \(transfer.key) \(transfer.method)")
        }
    }

    /// Takes away the folder that an object is to replace.
    private func deleteMarker(_ node: JournalNode) throws {
        note("delete-marker \(node.path)")
        if losesPower { try journal.makeDurable() }
        markers[node.path] = nil
        try journal.completeDirectoryRemoval(at: node.path)
    }

    // MARK: transfers

    private func transferStep() throws {
        guard let (transfer, fate) = random.pick(try journal.transfers()) else { return }
        if let version = landed[transfer.id] { return try complete(transfer, version) }
        if transfer.phase == .committing {
            if random.chance(70) { return try land(transfer) }
            note("fail \(transfer.key)")
            return try random.chance(50) ? journal.markSending(transfer.id) : journal.removeTransfer(transfer.id)
        }
        guard fate == .wanted, let node = try journal.node(transfer.node) else {
            note("abort \(transfer.key)")
            return try journal.removeTransfer(transfer.id)
        }
        if transfer.method == .put, try hydrate(node) { return }
        if try journal.blockers(of: node).isEmpty {
            // What was below it when this began is gone by now.
            if node.hasRemoteDirectory { return try deleteMarker(node) }
            note("commit \(transfer.key)")
            try journal.markCommitting(transfer.id, expectedTag: nil)
        }
    }

    private func complete(_ transfer: Transfer, _ version: ObjectVersion) throws {
        let hasAttributes = objects[transfer.key]?.attributes == sent[transfer.id]?.attributes
        let completion = try journal.completeTransfer(transfer.id, version: version, hasAttributes: hasAttributes)
        note("complete \(transfer.key) \(completion)")
        note("completed-\(String(describing: completion).prefix { $0 != "(" })")
        guard losesPower else {
            landed[transfer.id] = nil
            return
        }
        // That it is noted is what power loss may take back; and what had replaced it may be lost, which is for those
        // who look to see.
        if completion == .unclaimed { model[transfer.key] = viewRemote(transfer.key) }
    }

    /// Fetches some of what a generation lacks; true when there was something to fetch.
    private func hydrate(_ node: JournalNode) throws -> Bool {
        guard let generation = node.generation else { return false }
        let missing = generation.content.underlayRanges
        guard let first = missing.first else {
            guard generation.underlay != .none else { return false }
            try journal.hydrated(generation.id, [])
            return try journal.generation(generation.id)?.underlay == Underlay.none
        }
        let ranges = random.chance(50) ? missing : [first]
        note("hydrate \(node.path)")
        for range in ranges {
            for segment in try journal.segments(of: generation, in: range) {
                let data = try bytes(of: segment)
                let staging = try journal.openStaging(generation.id, creating: true)
                try data.withUnsafeBytes { try staging.write($0, at: segment.range.lower) }
            }
        }
        var checksums: ChecksumList?
        if generation.checksums == .complete || generation.content.extents.isEmpty, random.chance(80) {
            checksums = try fetched(ranges, generation)
        }
        try journal.hydrated(generation.id, ranges, checksums: checksums)
        return true
    }

    private func fetched(_ ranges: [ByteRange], _ generation: Generation) throws -> ChecksumList {
        var list = try journal.checksums(of: generation.id)
        var (extents, wanted, budget) = (generation.content.extents, ExtentSet(), Int64.max)
        for range in ranges {
            extents.insert(range)
            wanted.insert(range)
        }
        let file = try journal.openStaging(generation.id, creating: true)
        guard try list.complete(wanted, within: extents, from: file, budget: &budget) == .complete else {
            throw Failure("generation \(generation.id): sound bytes do not match")
        }
        return list
    }

    /// The remote carries out a commit whose answer is not there yet.
    private func land(_ transfer: Transfer) throws {
        guard try conditionHolds(transfer) else { return }
        if isAnythingBelow(transfer.key) { throw Failure("\(transfer.key): an object beside a folder") }
        try checkFolders(above: transfer.key)
        let content: [UInt8]
        if transfer.method == .copy {
            guard let generation = try generation(of: transfer), let from = generation.wholeRemote else {
                if let row = try journal.node(transfer.node), row.path != transfer.key {
                    // Its bytes were fetched for another name meanwhile.
                    note("fail \(transfer.key)")
                    return try journal.removeTransfer(transfer.id)
                }
                throw Failure("\(transfer.key): a copy of nothing")
            }
            guard let source = objects[from.key], source.version.isSame(as: from.version) else {
                if try losesPower || journal.node(transfer.node) == nil {
                    // Nobody wants it any more, so nothing was kept for it.
                    note("fail \(transfer.key)")
                    return try journal.removeTransfer(transfer.id)
                }
                throw Failure("\(transfer.key): its source \(from.key) \(from.version) is gone")
            }
            content = source.content
        } else {
            content = try sentContent(transfer)
        }
        note("land \(transfer.key)")
        let version = newVersion(content)
        guard var attributes = sent[transfer.id]?.attributes else { throw Failure("\(transfer.key): no attributes") }
        if transfer.method == .put, random.chance(10) {
            // What comes to pass is an earlier request for the same bytes.
            note("land-other")
            attributes.modified = Timestamp(seconds: tick())
        }
        objects[transfer.key] = Object(version: version, content: content, attributes: attributes)
        if let file = sent[transfer.id]?.file { committed[file] = content }
        landed[transfer.id] = version
    }

    private func isAnythingBelow(_ key: ObjectKey) -> Bool {
        markers[key] != nil || objects.keys.contains { $0 != key && $0.isInside(key) }
            || markers.keys.contains { $0 != key && $0.isInside(key) }
    }

    private func generation(of transfer: Transfer) throws -> Generation? {
        guard let id = transfer.generation else { return nil }
        return try journal.generation(id)
    }

    private func sentContent(_ transfer: Transfer) throws -> [UInt8] {
        guard transfer.generation != nil else {
            guard let target = sent[transfer.id]?.target else { throw Failure("\(transfer.key): a link without text") }
            return target.bytes
        }
        guard let generation = try generation(of: transfer) else { throw Failure("\(transfer.key): content is gone") }
        guard generation.content.underlayRanges.isEmpty else { throw Failure("\(transfer.key): sent with gaps") }
        try checkBytes(of: generation)
        return try read(generation)
    }

    /// What is sent is what was written: nothing sound is taken for damaged.
    private func checkBytes(of generation: Generation) throws {
        guard generation.size > 0, let check = try journal.check(of: generation) else { return }
        note(generation.checksums == .complete ? "check" : "check-some")
        let file = try journal.openStaging(generation.id, creating: true)
        if try file.status().size < generation.size { try file.truncate(to: generation.size) }
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(generation.size), alignment: 8)
        defer { bytes.deallocate() }
        try CheckedReader(file.raw, check).read(into: bytes, at: 0)
    }

    /// A commit whose condition fails is only right where a deletion's answer was lost.
    private func conditionHolds(_ transfer: Transfer) throws -> Bool {
        switch (transfer.base, objects[transfer.key]?.version) {
        case (.absent, nil): return true
        case (.version(let base), let version?) where version.isSame(as: base): return true
        case (.version, nil):
            note("412 \(transfer.key)")
            try journal.removeTransfer(transfer.id)
            if let node = try journal.node(at: transfer.key) { try journal.rebase(node, onto: .absent) }
            return false
        default:
            throw Failure("\(transfer.key): \(String(describing: objects[transfer.key])) for \(transfer.base)")
        }
    }

    private func release() throws {
        for generation in try journal.releaseGenerations() {
            note("release \(generation.id)")
            if let object = generation.object, let content = objects[object.key],
                content.version.isSame(as: object.version)
            {
                // A file of zeros only may have no staging file at all.
                let data = (try? Files.read(journal.stagingPath(generation.id))) ?? []
                if data + [UInt8](repeating: 0, count: content.content.count - data.count) != content.content {
                    throw Failure(
                        "generation \(generation.id) is not \(object.key): \(data) instead of \(content.content)"
                    )
                }
            }
            try journal.removeStaging(generation.id)
        }
    }
}
