// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Database
internal import Glibc
package import Platform

extension Journal {
    /// From this many files on one syncfs(2) costs less than a sync of each.
    package static let manyFiles = 16
    private static let syncedAtOnce = 1000

    /// Sealed generations whose staging data is not synced yet, oldest first: work for the group sync.
    ///
    /// Those that the disk failed to write are not among them.
    package func unsyncedGenerations(limit: Int = 1000) throws(JournalError) -> [Generation] {
        try read { tables throws(JournalError) in
            try tables.connection.all(
                """
                SELECT \(Tables.generationColumns) FROM generation g
                WHERE g.is_synced = 0 AND g.doubt = 0 AND g.is_sealed = 1 ORDER BY g.id LIMIT ?
                """,
                [.integer(Int64(limit))]
            ) { row throws(JournalError) in try Tables.generation(row) }
        }
    }

    /// Whether power loss leaves bytes of a generation that are only here: those of now, or of an earlier sync; with
    /// `orBelow` also those of the generation that it is over.
    package func survivesPowerLoss(_ id: GenerationID, orBelow: Bool = false) throws(JournalError) -> Bool {
        try read(.generation(id)) { tables throws(JournalError) in
            let sql = """
                SELECT 1 FROM generation g LEFT JOIN generation b ON b.id = g.underlay_generation AND ?2
                WHERE g.id = ?1 AND (g.is_synced = 1 OR length(g.synced_extents) > 0 OR length(b.synced_extents) > 0)
                """
            return try tables.connection.exists(sql, [.integer(id.value), .integer(orBelow)])
        }
    }

    /// Syncs the staging files of all sealed generations that are not synced yet, and notes durably what came of it.
    ///
    /// `syncOpen` syncs a file through the descriptor it was written by, which hears of every error since; false when
    /// it has none, and a new descriptor must do. Those of `open` wait for another time. With `always` earlier commits become
    /// durable also when no file waits.
    /// Throws when no file could be asked for; what failed for one file is in its record, and in the log. Returns how
    /// many files there were.
    @discardableResult
    package func synchronizeSealed(
        except open: Set<GenerationID> = [],
        always: Bool = false,
        _ syncOpen: (GenerationID) throws(SystemError) -> Bool = { _ in false }
    ) throws(JournalError) -> Int {
        var count = 0
        while true {
            let all = try unsyncedGenerations(limit: Self.syncedAtOnce + open.count)
            let generations = all.filter { !open.contains($0.id) }
            guard always || !generations.isEmpty else { return count }
            count += generations.count
            let failed = try force(generations, syncOpen)
            try noteFailedSync(of: failed)
            let synced = generations.filter { !failed.contains($0.id) }
            try markSynced(synced, takeChecksums(of: synced))
            guard generations.count >= Self.syncedAtOnce else { return count }
        }
    }

    /// Notes durably that the staging files of these generations, read before the sync, were synced.
    ///
    /// One whose record changed since stays unsynced, and one that the disk failed to write stays in doubt. The
    /// staging directory must have been synced too. Every earlier commit becomes durable along with it, also when the
    /// list is empty. Returns those in doubt. `checksums` are of the bytes that these records have.
    @discardableResult
    package func markSynced(
        _ generations: [Generation],
        _ checksums: [GenerationID: TakenChecksums] = [:]
    ) throws(JournalError) -> [GenerationID] {
        try write(durable: true) { tables throws(JournalError) in
            var doubtful: [GenerationID] = []
            for generation in generations {
                guard let current = try tables.generation(generation.id) else { continue }
                if current.doubt != .none { doubtful.append(current.id) }
                guard current.revision == generation.revision else { continue }
                try tables.noteSynced(generation.id)
                if current.isSealed { try tables.noteChecksums(checksums[generation.id], of: current) }
            }
            return doubtful
        }
    }

    /// Notes that the disk failed to write these generations: no later sync of them counts, and their rows wait for a
    /// person.
    package func noteFailedSync(of generations: [GenerationID]) throws(JournalError) {
        guard !generations.isEmpty else { return }
        let paths: [ObjectKey]
        do throws(JournalError) {
            paths = try write(durable: true) { tables throws(JournalError) in try tables.noteDoubt(generations) }
        } catch {
            // The disk may refuse the log's sync just as well: then at least the next process of ours is to know.
            paths = try write { tables throws(JournalError) in try tables.noteDoubt(generations) }
        }
        for path in paths { Log.error("journal", "\(path): \(SyncDoubt.attention)") }
    }

    /// Has power loss leave the names of new files that are still open, as empty files: a folder was synced.
    ///
    /// It counts with the next durable commit.
    package func noteNewNames() throws(JournalError) {
        try write { tables throws(JournalError) in
            let new = try tables.connection.all(
                "SELECT id FROM generation WHERE is_synced = 0 AND is_sealed = 0 AND is_recorded = 0",
                []
            ) { GenerationID($0.integer(0)) }
            for id in new { try tables.noteSynced(id) }
        }
    }

    /// Forces a file's bytes to the disk.
    ///
    /// Never to be repeated after a failure: the kernel may have dropped the bytes, and calls the next one a success.
    package func synchronizeData(_ file: borrowing FileDescriptor) throws(SystemError) {
        try DiskSync.check(disk.data(file.raw), "fdatasync")
    }

    /// Makes the names of staging files durable; part of the first fsync of a file, before its durable record.
    package func synchronizeStagingDirectory() throws(SystemError) {
        try DiskSync.check(disk.names(stagingFolder.raw), "fsync")
    }

    /// Brings the files of generations to the disk; returns those for which that failed.
    private func force(
        _ generations: [Generation],
        _ syncOpen: (GenerationID) throws(SystemError) -> Bool
    ) throws(JournalError) -> [GenerationID] {
        let withData = generations.filter { !$0.content.extents.isEmpty }.map(\.id)
        guard !withData.isEmpty else { return [] }
        var failed: [GenerationID] = []
        // An error of the whole file system may be anybody's: each file then tells of its own.
        if withData.count < Self.manyFiles || disk.everything(stagingFolder.raw) != 0 {
            for id in withData where try !force(id, syncOpen) { failed.append(id) }
        }
        do throws(SystemError) {
            try synchronizeStagingDirectory()
        } catch {
            Log.error("journal", "the names of closed files: \(error)")
            return withData
        }
        return failed
    }

    private func force(
        _ id: GenerationID,
        _ syncOpen: (GenerationID) throws(SystemError) -> Bool
    ) throws(JournalError) -> Bool {
        do throws(SystemError) {
            if try syncOpen(id) { return true }
        } catch {
            return false
        }
        let file: FileDescriptor
        do throws(SystemError) {
            file = try openStaging(id, creating: false)
        } catch {
            // One that is gone was removed meanwhile; its record has changed too.
            if error.code == ENOENT { return true }
            throw JournalError(system: error)
        }
        return disk.data(file.raw) == 0
    }
}

/// The calls that force files to the disk, each on a descriptor, with an errno or 0 as its result.
///
/// Tests put failures in their place.
package struct DiskSync: Sendable {
    /// The bytes of a file.
    package var data: @Sendable (Int32) -> Int32 = { descriptor in repeating { fdatasync(descriptor) } }
    /// The names in a folder.
    package var names: @Sendable (Int32) -> Int32 = { descriptor in repeating { fsync(descriptor) } }
    /// The whole file system; fails when anything on it failed since the last time on this descriptor.
    package var everything: @Sendable (Int32) -> Int32 = { descriptor in repeating { moorage_syncfs(descriptor) } }

    package init() {}

    private static func repeating(_ call: () -> Int32) -> Int32 {
        while call() != 0 {
            if errno != EINTR { return errno }
        }
        return 0
    }

    fileprivate static func check(_ code: Int32, _ call: String) throws(SystemError) {
        if code != 0 { throw SystemError.make(code, call, "staging") }
    }
}

extension SyncDoubt {
    /// What a person is told of a file that the disk failed to write.
    package static let attention = """
        the disk failed to write it, so what reads well now may be lost or wrong: check the disk, then copy the file \
        again; retry takes it as it reads now
        """
    /// And of one that the disk did not keep.
    package static let attentionAfterDamage = """
        bytes of it changed on the disk after they were written: check the disk, then copy the file again; retry takes \
        it as it reads now
        """
}

extension Tables {
    /// Puts generations in doubt, and lets their rows wait for a person; returns the rows' paths.
    func noteDoubt(_ generations: [GenerationID]) throws(JournalError) -> [ObjectKey] {
        var paths: [ObjectKey] = []
        for id in generations {
            let doubt: [Value] = [.integer(SyncDoubt.failed.rawValue), .integer(id.value)]
            let sql = "UPDATE generation SET doubt = ?, is_synced = 0 WHERE id = ?"
            guard try connection.run(sql, doubt) > 0 else { continue }
            try connection.run(
                "UPDATE node SET attention = ? WHERE generation = ?",
                [.text(SyncDoubt.attention), .integer(id.value)]
            )
            paths += try nodes("WHERE n.generation = ?", [.integer(id.value)]).map(\.path)
        }
        return paths
    }

    /// Fails for a generation that a sync failed for.
    func refuseDoubt(_ id: GenerationID) throws(JournalError) {
        guard let doubt = try generation(id)?.doubt, doubt != .none else { return }
        throw JournalError(.io, "journal: \(doubt.attention ?? SyncDoubt.attention)")
    }
}
