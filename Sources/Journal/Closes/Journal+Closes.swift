// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Glibc
internal import Platform
internal import Synchronization

/// Which records of the close log are yet to get rows; one row of **meta**, so that no damage takes a part of it.
struct CloseLogMark: Hashable, Sendable {
    /// The machine's start in which the log was begun: what it tells of is in no staging file for sure after another.
    let boot: String
    let nonce: UInt64
    /// The serial of the last close whose file has, or had, a row.
    var serial: UInt64 = 0

    static let key = "closes"

    var text: String { "\(serial) \(nonce) \(boot)" }

    init(boot: String, nonce: UInt64) { (self.boot, self.nonce) = (boot, nonce) }

    init?(_ text: String) {
        let parts = text.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let serial = UInt64(parts[0]), let nonce = UInt64(parts[1]) else { return nil }
        self.init(boot: String(parts[2]), nonce: nonce)
        self.serial = serial
    }
}

extension Journal {
    /// Notes the close of a new file in the close log, so that many get their rows in one transaction; false where that is
    /// not to be.
    ///
    /// Its row is written with the next change of any row here, or when somebody asks for it, in whatever process. Until
    /// then SIGKILL leaves the record, of which the next process that opens the journal makes the row.
    func closeLater(_ node: NodeID, _ seal: () -> NewFile.Seal) -> Bool {
        guard hasRoomForRows, newFiles.close(node, seal, in: closeLog) else { return false }
        begun.wrappingAdd(1, ordering: .sequentiallyConsistent)
        return true
    }

    /// Writes the rows of new files that another process closed, and has not written down or never will, before anything
    /// is read.
    ///
    /// Where the disk has no room, or fails, the read goes on without them: who sends files makes room by that.
    func adoptCloses() throws(JournalError) {
        do throws(JournalError) {
            // Before the lock of the connection is taken: mostly there is nothing.
            guard try hasForeignCloses() else { return }
            let found = try reader.read { connection throws(JournalError) in
                try foreignCloses(Tables(connection: connection), ofAnyBoot: false, taking: false)
            }
            guard let found else { return }
            if found.lastSerial == nil { closeLog.noteSeen(found.place) } else { try write { _ in } }
        } catch {
            guard error.isOfMachine else { throw error }
            Log.debug("journal", "closes could not be written down yet: \(error)")
        }
    }

    /// The same within a transaction; returns up to where the log was read.
    ///
    /// What was closed in the machine's time before (`ofAnyBoot`) is in no staging file for sure: only a recovery looks at
    /// it, and takes its row for one that was not synced.
    @discardableResult
    func adoptCloses(_ tables: Tables, ofAnyBoot: Bool = false) throws(JournalError) -> CloseLog.Place? {
        guard let found = try foreignCloses(tables, ofAnyBoot: ofAnyBoot, taking: true) else { return nil }
        guard var mark = found.mark, let serial = found.lastSerial else { return found.place }
        let sequence = try tables.nextSequence()
        for record in found.records where try hasBytes(record) { try tables.adopt(record, sequence) }
        mark.serial = serial
        try tables.set(mark)
        return found.place
    }

    /// What another process closed.
    private struct ForeignCloses {
        /// Up to where the log was read.
        let place: CloseLog.Place
        var mark: CloseLogMark?
        /// Those that are to get rows.
        var records: [CloseRecord] = []
        /// Of the last that is not behind the mark; nil when there is none.
        var lastSerial: UInt64?
    }

    private func foreignCloses(
        _ tables: Tables,
        ofAnyBoot: Bool,
        taking: Bool
    ) throws(JournalError) -> ForeignCloses? {
        guard try hasForeignCloses() else { return nil }
        guard let log = try closeLogBytes(taking: taking, isOptional: !ofAnyBoot) else { return nil }
        guard let (nonce, records, end) = CloseRecord.chain(log), let last = records.last else { return nil }
        var found = ForeignCloses(place: CloseLog.Place(nonce: nonce, serial: last.serial, end: end))
        guard let mark = try tables.closeLogMark(), mark.nonce == nonce else { return found }
        // A recovery is yet to see them.
        guard ofAnyBoot || mark.boot == boot else { return nil }
        found.mark = mark
        found.records = CloseRecord.withoutRows(records, after: mark.serial)
        found.lastSerial = last.serial > mark.serial ? last.serial : nil
        return found
    }

    /// Nil where what is optional cannot be taken now.
    private func closeLogBytes(taking: Bool, isOptional: Bool) throws(JournalError) -> [UInt8]? {
        do throws(SystemError) {
            return taking ? try closeLog.take() : try closeLog.read()
        } catch {
            // The transaction is about something else, which may be what makes room.
            guard taking, isOptional else { throw JournalError(system: error) }
            Log.debug("journal", "\(error)")
            return nil
        }
    }

    /// Whether a file's bytes are still there: a log can be younger than the journal, as where that was restored.
    private func hasBytes(_ record: CloseRecord) throws(JournalError) -> Bool {
        guard let end = record.extents.ranges.last?.upper else { return true }
        let path = stagingPath(record.generation)
        let status = try translating { () throws(SystemError) in try FileStatus.of(path) }
        if let status, status.size >= end { return true }
        Log.error("journal", "\(record.path): the close log tells of a file whose bytes are gone")
        return false
    }

    /// Where a disk is all but full a close is not to be answered before its row is written.
    private var hasRoomForRows: Bool {
        var status = statvfs()
        guard fstatvfs(stagingFolder.raw, &status) == 0 else { return false }
        return Int64(status.f_bavail) * Int64(status.f_frsize) >= Self.roomForRows
    }

    /// In bytes: as much as the database's log takes between two checkpoints, twice.
    private static let roomForRows: Int64 = 32 << 20

    private func hasForeignCloses() throws(JournalError) -> Bool {
        if newFiles.hasLog { return false }
        return try translating { () throws(SystemError) in try closeLog.hasNews() }
    }
}

extension CloseRecord {
    /// Nil for a file that a record does not hold all of.
    init?(_ file: NewFile, _ seal: NewFile.Seal, serial: UInt64) {
        let attributes = file.node.attributes
        guard attributes.extended == .none, !attributes.isSpecial, seal.content.underlayLength == 0 else { return nil }
        let rows = seal.checksums.changedRows.sorted()
        self.init(
            serial: serial,
            node: file.node.id,
            generation: file.generation,
            path: file.node.path,
            mode: attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            modified: seal.modified ?? attributes.modified,
            closedAt: seal.now,
            size: seal.content.size,
            extents: seal.content.extents,
            checksums: rows.compactMap { row in
                seal.checksums.encoded(row: row).map { Checksums(row: row, covered: $0.covered, sums: $0.checksums) }
            }
        )
    }

    /// The file as the process knew it that closed it.
    fileprivate var file: NewFile {
        let attributes = FileAttributes(mode: mode, uid: uid, gid: gid, modified: modified)
        let node = JournalNode(new: node, generation, at: path, attributes, now: closedAt)
        return NewFile(node: node, generation: generation, since: 0)
    }

    fileprivate var seal: NewFile.Seal {
        var list = ChecksumList()
        for part in checksums { list.add(row: part.row, part.covered, part.sums) }
        let content = ContentMap(size: size, extents: extents, underlayLength: 0)
        return NewFile.Seal(node: node, content: content, modified: modified, checksums: list, now: closedAt)
    }
}

extension Tables {
    func closeLogMark() throws(JournalError) -> CloseLogMark? {
        try text(CloseLogMark.key).flatMap { CloseLogMark($0) }
    }

    func set(_ mark: CloseLogMark) throws(JournalError) {
        try setText(CloseLogMark.key, mark.text)
    }

    fileprivate func adopt(_ record: CloseRecord, _ sequence: ChangeSequence) throws(JournalError) {
        guard try node(record.node) == nil, try generation(record.generation) == nil else {
            return Log.error("journal", "\(record.path): the close log tells of a file that has a row")
        }
        try insert(record.file, sequence, record.seal)
    }
}
