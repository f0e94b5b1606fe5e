// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Glibc
package import Platform
internal import Synchronization

/// The desired state of a volume where it differs from the remote, and the files with its bytes.
///
/// The mount and the flusher each open it; any thread may call. Every method is
/// one transaction: after a crash at any instruction it has happened wholly or
/// not at all. Readers look here first, then into the catalog; the flusher
/// writes the catalog first, then removes the row, so no reader sees a gap.
package final class Journal: Sendable {
    /// The volume's state directory: `journal.sqlite`, `staging/`, `quarantine/`.
    package let directory: String
    let writer: Database
    let reader: Database
    let disk: DiskSync
    /// Open from the beginning, so that no error of the file system is missed.
    let stagingFolder: FileDescriptor
    private let identity: [UInt64]?
    let begun = Atomic<Int>(0)
    /// Held by who has notes of requests made durable.
    private let notes = Lock(())
    let newFiles = NewFiles()
    let closeLog: CloseLog
    /// The kernel's name for the time since the machine was started.
    let boot: String
    /// Some file may have several names; never false again.
    let mayHaveLinks = Atomic<Bool>(false)

    /// Opens the journal in a volume's state directory, creating both when missing.
    ///
    /// Does no recovery: whoever takes the mount lock first uses ``recovering(directory:boot:now:)``.
    package init(
        directory: String,
        disk: DiskSync = DiskSync(),
        boot: String = bootIdentifier()
    ) throws(JournalError) {
        self.directory = directory
        self.disk = disk
        self.boot = boot
        closeLog = CloseLog(directory: directory)
        do throws(SystemError) {
            try Files.makeDirectories(directory)
            try Files.makeDirectories("\(directory)/staging")
            try Files.makeDirectories("\(directory)/quarantine")
            stagingFolder = try FileDescriptor.open("\(directory)/staging", O_RDONLY | O_DIRECTORY)
        } catch {
            throw JournalError(system: error)
        }
        let path = "\(directory)/journal.sqlite"
        writer = try Database(path: path, migrations: Schema.migrations)
        reader = try Database(path: path)
        identity = Self.identity(of: path)
        let hasLinks = try reader.read { connection throws(JournalError) in
            try connection.exists("SELECT 1 FROM link", [])
        }
        mayHaveLinks.store(hasLinks, ordering: .relaxed)
    }

    /// Whether another database has the name by now: the mount found this one damaged.
    package var isSetAside: Bool {
        guard let now = Self.identity(of: "\(directory)/journal.sqlite") else { return false }
        return now != identity
    }

    /// Whether the journal was brought in order since the machine was started, or by who holds the mount lock with a token.
    ///
    /// Until then rows, and files of rows, may be missing, and power loss may have torn what they say is whole. The token
    /// tells where the boots do not: a container may have a boot_id of its own (random(4)).
    package func isRecovered(byHolder token: String? = nil) throws(JournalError) -> Bool {
        try read { tables throws(JournalError) in
            guard try tables.text(Salvage.underWay) == nil else { return false }
            if try tables.text(Recovery.bootKey) == boot { return true }
            guard let token else { return false }
            return try tables.text(Recovery.holderKey) == token
        }
    }

    private static func identity(of path: String) -> [UInt64]? {
        guard let status = try? FileStatus.of(path) else { return nil }
        return [status.device, status.inode]
    }

    /// The file with a generation's bytes; it exists once something was written.
    package func stagingPath(_ generation: GenerationID) -> String { "\(directory)/staging/\(generation.value)" }

    /// Opens a generation's staging file for reading and writing; with `creating` makes it when missing (mode 0600).
    package func openStaging(_ generation: GenerationID, creating: Bool) throws(SystemError) -> FileDescriptor {
        if creating, let prepared = newFiles.takePrepared(generation) { return prepared }
        return try FileDescriptor.open(stagingPath(generation), O_RDWR | O_NOFOLLOW | (creating ? O_CREAT : 0))
    }

    /// Gives an open file of the staging folder that has no name (`O_TMPFILE`) that of a generation without one.
    package func placeStaging(
        _ file: borrowing FileDescriptor,
        as generation: GenerationID
    ) throws(SystemError) {
        try file.link(to: stagingPath(generation))
    }

    /// Deletes a generation's staging file, if there is one.
    package func removeStaging(_ generation: GenerationID) throws(SystemError) {
        try Files.removeIfPresent(stagingPath(generation))
    }

    /// Changes whenever any process commits; equal values mean that nothing changed between the calls.
    package func changeCounter() throws(JournalError) -> Int64 {
        try reader.read { connection throws(JournalError) in
            try connection.first("PRAGMA data_version") { $0.integer(0) } ?? 0
        }
    }

    /// How many transactions this object has begun: while that stays the same, nobody here has changed a row.
    package var begunTransactions: Int { begun.load(ordering: .sequentiallyConsistent) }

    /// Makes every commit so far, of any process, survive power loss.
    package func makeDurable() throws(JournalError) {
        try write(durable: true) { _ in }
    }

    /// Writes something down before the request that it is about goes out, durably, with every earlier commit.
    ///
    /// Else power loss could leave a journal older than the remote, which takes its own object for somebody else's, or
    /// brings back a row that shows what was replaced since. Nil, and nothing goes out, where `body` gives nil.
    ///
    /// `undo` takes the note back where it cannot be made durable.
    func writeBeforeRequest<Result>(
        _ body: (Tables) throws(JournalError) -> Result?,
        undo: (Tables, Result) throws(JournalError) -> Void
    ) throws(JournalError) -> Result? {
        let note = try write { tables throws(JournalError) in (try body(tables), try tables.durableCommits()) }
        guard let result = note.0 else { return nil }
        // Of several that wait for the disk the first may do it for all.
        return try notes.withLock { _ throws(JournalError) in
            let commits = try reader.read { connection throws(JournalError) in
                try Tables(connection: connection).durableCommits()
            }
            guard commits == note.1 else { return result }
            do throws(JournalError) {
                try makeDurable()
            } catch {
                _ = try? write { tables throws(JournalError) in try undo(tables, result) }
                throw error
            }
            return result
        }
    }

    /// Reads; what is new and what is read may concern it has its row first.
    func read<Result>(
        _ subject: NewFile.Subject = .anything,
        _ body: (Tables) throws(JournalError) -> Result
    ) throws(JournalError) -> Result {
        try writeNewFiles(subject)
        return try reader.read { connection throws(JournalError) in try body(Tables(connection: connection)) }
    }

    func snapshot<Result>(
        _ subject: NewFile.Subject = .anything,
        _ body: (Tables) throws(JournalError) -> Result
    ) throws(JournalError) -> Result {
        try writeNewFiles(subject)
        return try reader.snapshot { connection throws(JournalError) in try body(Tables(connection: connection)) }
    }

    @discardableResult
    func write<Result>(
        durable: Bool = false,
        _ body: (Tables) throws(JournalError) -> Result
    ) throws(JournalError) -> Result {
        try writeAll(durable) { tables, _, _ throws(JournalError) in try body(tables) }
    }

    /// A transaction of the mount's side: takes the next sequence.
    func change<Result>(
        at now: Timestamp,
        durable: Bool = false,
        _ body: (Change) throws(JournalError) -> Result
    ) throws(JournalError) -> Result {
        try writeAll(durable) { tables, sequence, _ throws(JournalError) in
            try body(tables.change(sequence, now))
        }
    }

    /// A transaction that begins with the rows of all new files, that of `seal` sealed.
    ///
    /// `seal` is asked within it. `body` gets the sequence of those rows, if there were any, and whether that of `seal` was
    /// among them.
    func writeAll<Result>(
        _ durable: Bool,
        sealing seal: @autoclosure () -> NewFile.Seal? = nil,
        _ body: (Tables, ChangeSequence?, Bool) throws(JournalError) -> Result
    ) throws(JournalError) -> Result {
        begun.wrappingAdd(1, ordering: .sequentiallyConsistent)
        var written: NewFiles.Waiting?
        var place: CloseLog.Place?
        func noteCommit() {
            newFiles.remove(written)
            closeLog.noteSeen(place)
        }
        func noteFailure(_ error: JournalError) {
            if written != nil { newFiles.abandon(isFailing: error.isOfMachine && error.kind != .busy) }
        }
        return try writer.write(
            durable: durable,
            committed: noteCommit,
            failed: noteFailure
        ) { connection throws(JournalError) in
            let tables = Tables(connection: connection)
            place = try adoptCloses(tables)
            written = newFiles.waiting()
            var (sequence, hasSealed): (ChangeSequence?, Bool) = (nil, false)
            if let waiting = written {
                let next = try tables.nextSequence()
                (sequence, hasSealed) = (next, try tables.insert(waiting, next, seal()))
            }
            let result = try body(tables, sequence, hasSealed)
            if durable { try tables.noteDurable() }
            return result
        }
    }
}
