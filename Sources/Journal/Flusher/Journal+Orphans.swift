// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Platform

extension Journal {
    /// Deletes the staging files of generations that no row has or names, which a process left that was killed between
    /// ``releaseGenerations(keepingAdoptable:limit:)`` and the removal of the files; returns how many.
    ///
    /// Right while a mount is at work: a file is made after the row of its generation, or within the transaction that
    /// gives it its name, or has a name that was taken for new files and noted before; and no name is given twice. Nil,
    /// and nothing is deleted, while the journal is yet to be recovered: a file may be the last trace of a row then.
    package func removeOrphans() throws(JournalError) -> Int? {
        guard try isRecovered() else { return nil }
        // In this order a file that comes meanwhile is not among the names.
        let names = try translating { () throws(SystemError) in
            Set(try Files.names(in: "\(directory)/staging").compactMap { Recovery.generation($0.string) })
        }
        let (known, new, last) = try snapshot { tables throws(JournalError) in
            let known = try tables.connection.all(
                """
                SELECT id FROM generation UNION SELECT generation FROM node WHERE generation NOTNULL
                UNION SELECT generation FROM transfer
                UNION SELECT underlay_generation FROM generation WHERE underlay_generation NOTNULL
                """
            ) { $0.integer(0) }
            return (known, try tables.namesOfNewFiles(), try tables.lastStagingName())
        }
        // One whose name was never given is of a transaction under way, or of a log that is lost, and the next recovery's.
        let orphans = names.subtracting(known).filter { !new.contains($0) && $0 <= last }
        guard !orphans.isEmpty else { return 0 }
        // Power loss must not bring back the row of a file that is gone.
        try makeDurable()
        try translating { () throws(SystemError) in
            for name in orphans { try removeStaging(GenerationID(name)) }
        }
        return orphans.count
    }

    func translating<Value>(_ body: () throws(SystemError) -> Value) throws(JournalError) -> Value {
        do throws(SystemError) {
            return try body()
        } catch {
            throw JournalError(system: error)
        }
    }
}
