// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Glibc
import Platform
import TestSupport

@testable import Journal

extension World {
    /// What was made durable, and how long the log was then.
    struct DurablePoint {
        var model: [ObjectKey: Entry] = [:]
        var log: Int64 = 0
    }

    /// The group sync: every closed file and every commit so far survives power loss.
    func makeDurable() throws -> DurablePoint {
        note("sync")
        try synchronizeClosed()
        var point = DurablePoint(model: model, log: try logSize())
        for path in open.keys.flatMap(names) { point.model[path] = nil }
        return point
    }

    /// Does one random thing of the mount or the flusher; what of it is made durable counts for ``afterPowerLoss(_:)``.
    func stepBeforePowerLoss() throws {
        losesPower = true
        if random.chance(40) { try mountStep() } else { try flusherStep() }
        let database = try Database(path: "\(scratch.path)/journal.sqlite", options: .init(isReadOnly: true))
        let commits = try database.read { connection throws(DatabaseError) in
            try connection.first("SELECT value FROM meta WHERE key = 'durable'") { $0.integer(0) } ?? 0
        }
        guard commits != durableCommits else { return }
        (durableCommits, durableLog) = (commits, try logSize())
    }

    func logSize() throws -> Int64 {
        try FileStatus.of("\(scratch.path)/journal.sqlite-wal")?.size ?? 0
    }

    /// The world after the power failed now: the log ends anywhere behind the last sync, and every byte of a
    /// staging file that no sync covered is another.
    func afterPowerLoss(_ point: DurablePoint) throws -> World {
        note("power-loss")
        let other = try World(copying: self)
        let target = other.scratch.path
        try Files.makeDirectories("\(target)/staging")
        try Files.writeAtomically("\(target)/journal.sqlite", try Files.read("\(scratch.path)/journal.sqlite"))
        let log = try Files.read("\(scratch.path)/journal.sqlite-wal", limit: 1 << 24)
        let durable = Int(max(point.log, durableLog))
        let cut = random.chance(50) ? durable : durable + random.below(log.count - durable + 1)
        try Files.writeAtomically("\(target)/journal.sqlite-wal", Array(log[..<cut]))
        let trusted = try Self.trustedExtents("\(target)/journal.sqlite")
        for name in try Files.names(in: "\(scratch.path)/staging") {
            guard let id = Int64(name.string) else { continue }
            try tear("staging/\(id)", trusted[id] ?? ExtentSet(), into: target)
        }
        other.journal = try Journal.recovering(directory: target, boot: "two").journal
        other.model = [:]
        for path in try other.visiblePaths() { other.model[path] = try other.view(path) }
        try other.learnLinks()
        return other
    }

    /// What of each staging file the journal may rely on after power loss.
    private static func trustedExtents(_ path: String) throws -> [Int64: ExtentSet] {
        let database = try Database(path: path)
        let sql = """
            SELECT id, CASE is_synced WHEN 1 THEN extents ELSE coalesce(synced_extents, x'') END, is_synced AND is_sealed
            FROM generation
            """
        let rows = try database.read { connection throws(DatabaseError) in
            try connection.all(sql) { row throws(DatabaseError) in
                // Of a file nobody wrote to since it was synced, the holes too.
                let all = ExtentSet(ByteRange(0, 1 << 40))
                return (row.integer(0), row.bool(2) ? all : try Encoding.extents(row.blob(1)))
            }
        }
        return Dictionary(rows) { first, _ in first }
    }

    private func tear(_ name: String, _ trusted: ExtentSet, into target: String) throws {
        var bytes = try Files.read("\(scratch.path)/\(name)")
        for gap in trusted.gaps(in: ByteRange(0, Int64(bytes.count))) {
            for offset in gap.lower..<gap.upper { bytes[Int(offset)] = Self.torn }
        }
        if random.chance(30) { bytes = Array(bytes.prefix(Int(trusted.upperBound))) }
        // Only the name of a file that was never synced may be lost.
        if bytes.isEmpty, trusted.isEmpty, random.chance(50) { return }
        try Files.writeAtomically("\(target)/\(name)", bytes)
    }

    func visiblePaths() throws -> Set<ObjectKey> {
        remotePaths().union(try journal.descendants(of: .root).map(\.path))
    }

    /// No torn byte is seen, and what nobody touched since it was made durable is as it was.
    func checkAfterPowerLoss(_ point: DurablePoint, untouched: (ObjectKey) -> Bool) throws {
        for (path, entry) in model {
            if case .file(let content, _) = entry, content.contains(Self.torn) {
                throw Failure("\(path) shows torn bytes")
            }
        }
        for (path, entry) in point.model where untouched(path) && model[path] != entry {
            throw Failure("\(path): \(String(describing: model[path])) instead of the durable \(entry)")
        }
        let rows = try journal.descendants(of: .root)
        guard rows.allSatisfy({ $0.schedule.attention == nil && !$0.isOpen }) else {
            throw Failure("rows need a person")
        }
    }
}
