// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Platform

extension Journal {
    /// Opens a volume's journal and brings it into a state without writers.
    ///
    /// The caller holds the volume's mount lock, so nobody writes files; a flusher may be at work. Open
    /// files go back to what close() or fsync() last acknowledged, data that power loss may have torn is not
    /// trusted, a damaged database is salvaged, staging files that are known to be waste are deleted. May be repeated at any
    /// point. A mount gives the ``FileLock/token`` of its lock, by which a flusher knows that it has recovered.
    package static func recovering(
        directory: String,
        boot: String? = nil,
        holder: String? = nil,
        disk: DiskSync = DiskSync(),
        now: Timestamp = .now()
    ) throws(JournalError) -> (journal: Journal, report: RecoveryReport) {
        let boot = boot ?? bootIdentifier()
        var report = RecoveryReport()
        try Salvage.undo(directory)
        var journal = try openSound(directory, disk, boot, now, &report)
        do throws(JournalError) {
            try Recovery.run(journal, boot, holder, now, &report)
        } catch {
            // Somebody may have read it well in the check, and not now.
            guard error.kind == .corrupt, try !journal.isSalvaged() else { throw error }
            journal = try openSalvaged(directory, disk, boot, now, error, &report)
            try Recovery.run(journal, boot, holder, now, &report)
        }
        try journal.synchronizeSealed()
        return (journal, report)
    }

    /// The kernel's name for the time since the machine was started (random(4)).
    package static func bootIdentifier() -> String {
        let bytes = try? Files.read("/proc/sys/kernel/random/boot_id", limit: 256)
        return String(decoding: (bytes ?? []).filter { $0 > 0x20 }, as: UTF8.self)
    }

    /// Opens the database after a check of its structure, or a new one with the rows that can be read.
    private static func openSound(
        _ directory: String,
        _ disk: DiskSync,
        _ boot: String,
        _ now: Timestamp,
        _ report: inout RecoveryReport
    ) throws(JournalError) -> Journal {
        do throws(JournalError) {
            let journal = try Journal(directory: directory, disk: disk, boot: boot)
            try journal.check()
            try Salvage.complete(journal)
            return journal
        } catch {
            guard error.kind == .corrupt else { throw advised(error) }
            return try openSalvaged(directory, disk, boot, now, error, &report)
        }
    }

    /// Opens a new database with the rows that can be read of the one that is there.
    private static func openSalvaged(
        _ directory: String,
        _ disk: DiskSync,
        _ boot: String,
        _ now: Timestamp,
        _ damage: JournalError,
        _ report: inout RecoveryReport
    ) throws(JournalError) -> Journal {
        Log.error("journal", "\(damage); saving the rows that can be read")
        do throws(JournalError) {
            report.salvagedFrom = try Salvage.run(directory, now)
            return try Journal(directory: directory, disk: disk, boot: boot)
        } catch {
            throw advised(error)
        }
    }

    private func isSalvaged() throws(JournalError) -> Bool {
        try read { tables throws(JournalError) in try tables.text(Salvage.underWay) != nil }
    }

    private static func advised(_ error: JournalError) -> JournalError {
        error.kind == .io ? JournalError(.io, "\(error)\(advice)") : error
    }

    /// What helps where a disk never reads it again: what becomes of the gap is damage, and the sound rows are saved.
    private static let advice = """
        ; nothing was changed: try again, and if it stays so, copy the state folder to a sound disk (ddrescue(1) for what \
        cannot be read) and mount from there
        """

    /// Compares tables with their indexes too: one may be of an earlier state, as what a disk has lost.
    private func check() throws(JournalError) {
        try writer.read { connection throws(JournalError) in
            let answer = try connection.first("PRAGMA integrity_check(1)") { $0.text(0) }
            guard answer == "ok" else { throw connection.damage("journal: \(answer ?? "no answer to a check")") }
        }
    }
}
