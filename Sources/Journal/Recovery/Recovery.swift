// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Glibc
internal import Platform

/// One recovery: a transaction over all rows, and the moves of staging files that belong to it.
///
/// Files go to quarantine before the commit and are deleted after it, so a crash
/// at any point leaves either the old rows with their files or the new ones.
struct Recovery {
    /// The key in `meta` of the boot in which the journal was last recovered.
    static let bootKey = "boot"
    /// The key in `meta` of the token of the mount lock under which that was; empty for a flusher's.
    static let holderKey = "holder"

    let journal: Journal
    let tables: Tables
    let now: Timestamp
    /// Rows that cannot be trusted after power loss are those that were not synced.
    let isNewBoot: Bool
    /// Staging files without a row are only waste, not the last trace of lost rows, if the rows ever knew their names.
    let isContinued: Bool
    var report: RecoveryReport
    /// Rows may be missing that others were meant to go with.
    var hasLostRows: Bool
    var garbage: [GenerationID] = []
    /// The last name that the rows know to have been given to a staging file.
    var lastName: Int64 = 0

    static func run(
        _ journal: Journal,
        _ boot: String,
        _ holder: String?,
        _ now: Timestamp,
        _ report: inout RecoveryReport
    ) throws(JournalError) {
        var start = report
        let done = try journal.write(durable: true) { tables throws(JournalError) in
            try journal.adoptCloses(tables, ofAnyBoot: true)
            let known = try tables.text(bootKey)
            // Also one that was cut short, of which nothing else tells.
            let salvage = try tables.text(Salvage.underWay)
            let isSalvaged = start.salvagedFrom != nil || salvage != nil
            if let salvage, salvage.contains("/") { start.salvagedFrom = "\(journal.directory)/\(salvage)" }
            var recovery = Recovery(
                journal: journal,
                tables: tables,
                now: now,
                isNewBoot: known != nil && known != boot,
                isContinued: known != nil && !isSalvaged,
                report: start,
                hasLostRows: isSalvaged
            )
            try recovery.run(boot)
            try tables.setText(holderKey, holder ?? "")
            return recovery
        }
        report = done.report
        do throws(SystemError) {
            for generation in done.garbage { try journal.removeStaging(generation) }
        } catch {
            throw JournalError(system: error)
        }
    }

    private mutating func run(_ boot: String) throws(JournalError) {
        report.isNewBoot = isNewBoot
        let names = try stagingNames()
        lastName = try tables.lastStagingName()
        try removeUnreadable("generation") { tables, id throws(JournalError) in
            _ = try tables.generation(GenerationID(id))
        }
        try removeUnreadable("node") { tables, id throws(JournalError) in _ = try tables.node(NodeID(id)) }
        try removeUnreadable("doubt") { tables, id throws(JournalError) in
            _ = try tables.doubts("WHERE id = ?", [.integer(id)])
        }
        try removeUnreadable("transfer") { tables, id throws(JournalError) in _ = try tables.transfer(TransferID(id)) }
        // Names that were in a log which is lost are given to nobody else. A recovery that was cut short may have taken to
        // quarantine what tells of them.
        let newest = (try quarantinedNames() + names).filter { $0 < Self.mostCounted }.max() ?? 0
        let isGap = isNewBoot || hasLostRows || !isContinued && newest > 0 || newest > lastName
        if isGap { try tables.skipNames(beyond: max(lastName, newest)) }
        try recoverGenerations()
        try recoverNodes()
        try recoverLinks()
        try collectGarbage(names)
        // Who took them is gone.
        try tables.forgetNamesOfNewFiles()
        try tables.setText(Self.bootKey, boot)
        try tables.connection.run("DELETE FROM meta WHERE key = ?", [.text(Salvage.underWay)])
    }

    /// Removes rows whose values make no sense, so that they cannot stop the others from being read.
    private mutating func removeUnreadable(
        _ table: String,
        _ read: (Tables, Int64) throws(JournalError) -> Void
    ) throws(JournalError) {
        for id in try tables.connection.all("SELECT id FROM \(table)", [], { $0.integer(0) }) {
            do throws(JournalError) {
                try read(tables, id)
            } catch {
                // A disk that fails says nothing of the row.
                guard !error.isOfMachine else { throw error }
                Log.error("journal", "row \(id) of table \(table) is unreadable and was removed: \(error)")
                try tables.connection.run("DELETE FROM \(table) WHERE id = ?", [.integer(id)])
                report.items.append(RecoveryReport.Item(path: nil, outcome: .lost))
                hasLostRows = true
            }
        }
    }

    private mutating func recoverNodes() throws(JournalError) {
        try removeEmptyNodes()
        for id in try tables.connection.all("SELECT id FROM node ORDER BY id", [], { NodeID($0.integer(0)) }) {
            guard var node = try tables.node(id) else { continue }
            if hasLostRows, try mayDestroy(node) {
                // The row that was to keep the object's content elsewhere may be among the lost.
                node.schedule.attention = Self.doubt
                try tables.update(node)
            }
            try noteDoubt(of: &node)
            guard node.isOpen else { continue }
            node.isOpen = false
            // A flusher that is at work learns of it by this.
            node.sequence = try tables.nextSequence()
            try tables.dropEmptyGeneration(&node)
            try tables.update(node)
            _ = try tables.removeIfClean(node)
        }
    }

    /// Lets a row wait for a person exactly while its content is one that the disk failed to write or keep.
    private func noteDoubt(of node: inout JournalNode) throws(JournalError) {
        let wanted = node.generation?.doubt.attention
        if let known = node.schedule.attention {
            guard wanted == nil, SyncDoubt.allCases.contains(where: { $0.attention == known }) else { return }
        } else if wanted == nil {
            return
        }
        node.schedule.attention = wanted
        try tables.update(node)
    }

    private static let doubt = """
        the journal was damaged: this change would overwrite or delete an object that may be meant to be kept \
        elsewhere; retry does it, cancel keeps the object
        """

    /// Removes rows of files whose content is not known any more.
    private mutating func removeEmptyNodes() throws(JournalError) {
        let condition = "WHERE g.id IS NULL AND (n.kind = 0 OR n.kind = 2 AND n.target IS NULL)"
        for node in try tables.nodes(condition) {
            try tables.delete(node)
            report.items.append(RecoveryReport.Item(path: node.path, outcome: .lost))
            hasLostRows = true
        }
    }

    /// Whether a row takes away an object at its key that its own content does not come from.
    private func mayDestroy(_ node: JournalNode) throws(JournalError) -> Bool {
        guard node.base != .absent else { return false }
        return try tables.origin(of: node.generation)?.key != node.path
    }

    /// Removes generations that nothing names, and staging files of no generation.
    private mutating func collectGarbage(_ names: Set<Int64>) throws(JournalError) {
        let (free, lost) = try removeUnnamed()
        try tables.connection.run("DELETE FROM checksum WHERE abs(generation) NOT IN (SELECT id FROM generation)")
        try removeHalfRewritten()
        let kept = Set(try tables.connection.all("SELECT id FROM generation") { $0.integer(0) })
        let new = try tables.namesOfNewFiles()
        for name in names.subtracting(kept).sorted() {
            // A file is made after its name was given: of a later name the log that gave it is lost. Of one taken for new
            // files the row is in the log and nowhere else, and nothing tells whether that is all there. Of an empty file
            // there is nothing to keep.
            let isKnown = name <= lastName && !lost.contains(name) && (!new.contains(name) || free.contains(name))
            if isKnown && isContinued && !hasLostRows || isEmpty(GenerationID(name)) {
                garbage.append(GenerationID(name))
                report.orphans += 1
            } else {
                try quarantine(GenerationID(name), nil)
            }
        }
    }

    /// Removes the rows of generations that nothing names: because it let go of them, or because it is lost.
    private func removeUnnamed() throws(JournalError) -> (free: Set<Int64>, lost: Set<Int64>) {
        let sql = """
            SELECT id, underlay_generation, id IN (SELECT generation FROM released) FROM generation
                WHERE id NOT IN (SELECT generation FROM node WHERE generation IS NOT NULL)
                AND id NOT IN (SELECT generation FROM transfer WHERE generation IS NOT NULL)
                AND id NOT IN (SELECT underlay_generation FROM generation WHERE underlay_generation IS NOT NULL)
            """
        var (free, lost, shown) = (Set<Int64>(), Set<Int64>(), Set<Int64>())
        while true {
            let unnamed = try tables.connection.all(sql) { row in
                (id: row.integer(0), below: row.integer(1), isFree: row.bool(2))
            }
            if unnamed.isEmpty { break }
            for generation in unnamed {
                if generation.isFree, !shown.contains(generation.id) {
                    free.insert(generation.id)
                    try tables.release(GenerationID(generation.below))
                } else {
                    lost.insert(generation.id)
                    shown.insert(generation.below)
                }
                try tables.deleteGeneration(GenerationID(generation.id))
            }
        }
        try tables.connection.run("DELETE FROM released")
        return (free, lost)
    }

    private func isEmpty(_ generation: GenerationID) -> Bool {
        (try? FileStatus.of(journal.stagingPath(generation)))?.size == 0
    }

    /// Removes what is left of files being written anew, unless a flusher is at it.
    private func removeHalfRewritten() throws(JournalError) {
        let sql = "SELECT id FROM generation WHERE doubt = ?"
        let busy = Set(
            try tables.connection.all(sql, [.integer(SyncDoubt.accepted.rawValue)]) {
                "\($0.integer(0))\(Journal.rewritten)"
            }
        )
        do throws(SystemError) {
            for name in try Files.names(in: "\(journal.directory)/staging").map(\.string)
            where name.hasSuffix(Journal.rewritten) && !busy.contains(name) {
                try Files.removeIfPresent("\(journal.directory)/staging/\(name)")
            }
        } catch {
            throw JournalError(system: error)
        }
    }

    /// Moves a staging file to quarantine, if there is one, and reports it.
    mutating func quarantine(_ generation: GenerationID, _ path: ObjectKey?) throws(JournalError) {
        let name = (path?.name.bytes ?? []).prefix(100).map { byte -> UInt8 in
            let isPlain = byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: "/")
            return isPlain ? byte : UInt8(ascii: "_")
        }
        let label = path == nil ? "orphan" : String(decoding: name, as: UTF8.self)
        let target = "\(journal.directory)/quarantine/\(Self.stamp(now))-\(generation)-\(label)"
        do throws(SystemError) {
            guard try FileStatus.of(journal.stagingPath(generation)) != nil else {
                if path != nil { report.items.append(RecoveryReport.Item(path: path, outcome: .reverted)) }
                return
            }
            try Files.rename(journal.stagingPath(generation), to: target, durable: true)
        } catch {
            // A flusher has taken away what it had let go of before.
            if error.code == ENOENT, path == nil { return }
            throw JournalError(system: error)
        }
        report.items.append(RecoveryReport.Item(path: path, outcome: .quarantined(target)))
    }

    /// The generations that have staging files; other names are left alone.
    private func stagingNames() throws(JournalError) -> Set<Int64> {
        do throws(SystemError) {
            return Set(try Files.names(in: "\(journal.directory)/staging").compactMap { Self.generation($0.string) })
        } catch {
            throw JournalError(system: error)
        }
    }

    /// The generations whose staging files are in quarantine, as their names there tell.
    private func quarantinedNames() throws(JournalError) -> [Int64] {
        // They begin with such a time, behind which comes "-".
        let length = Self.stamp(now).utf8.count
        do throws(SystemError) {
            return try Files.names(in: "\(journal.directory)/quarantine").compactMap { name in
                let rest = name.string.utf8.dropFirst(length - 1)
                guard rest.starts(with: "Z-".utf8) else { return nil }
                return String(rest.dropFirst(2).prefix { $0 != UInt8(ascii: "-") }).flatMap(Self.generation)
            }
        } catch {
            throw JournalError(system: error)
        }
    }

    /// The number that a name is; nil where the counter never comes to it.
    static func generation(_ name: String) -> Int64? {
        Int64(name).flatMap { (1..<2 * mostCounted).contains($0) ? $0 : nil }
    }

    /// From here on a number in the name of a file is somebody else's, and leaves the counter where it is.
    private static let mostCounted: Int64 = 1 << 52

    /// A time as part of a file name.
    static func stamp(_ time: Timestamp) -> String {
        time.rfc3339.filter { $0 != ":" }
    }
}
