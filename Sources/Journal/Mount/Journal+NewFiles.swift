// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Glibc
internal import Platform
internal import Synchronization

extension Journal {
    /// A new empty file, open for writing, where neither a row nor the remote has anything.
    ///
    /// Its row is written with the next change of any row here, or when somebody asks for it: where that is its close, one
    /// transaction does for both. Until then SIGKILL takes the file away, which nobody has closed. The caller has
    /// ``writeNewFiles(olderThan:)`` called soon.
    package func createFileLater(
        at path: ObjectKey,
        attributes: FileAttributes,
        now: Timestamp = .now()
    ) throws(JournalError) -> JournalNode {
        guard !path.isRoot else { throw JournalError(.constraint, "journal: the root cannot be replaced") }
        begun.wrappingAdd(1, ordering: .sequentiallyConsistent)
        while true {
            let file = newFiles.add { node, generation in
                NewFile(
                    node: JournalNode(new: node, generation, at: path, attributes, now: now),
                    generation: generation,
                    since: monotonicSeconds()
                )
            }
            if let file { return file.node }
            try newFiles.reserve { () throws(JournalError) in
                try reserveNames()
            }
        }
    }

    /// Changes attributes of a file that has no row yet; false where there is a row to be changed.
    ///
    /// The row is written with them. Until then SIGKILL takes both away while nobody has closed the file, and leaves both
    /// in the close log when it is closed.
    package func setAttributesOfNewFile(
        _ node: NodeID,
        at path: ObjectKey,
        _ changes: AttributeChanges,
        now: Timestamp = .now()
    ) -> Bool {
        guard newFiles.change(node, at: path, changes, now: now, in: closeLog) else { return false }
        begun.wrappingAdd(1, ordering: .sequentiallyConsistent)
        return true
    }

    /// Whether a file has no row yet.
    package func isNewFile(_ node: NodeID) -> Bool { newFiles.contains { $0.node.id == node } }

    private func reserveNames() throws(JournalError) -> NewFiles.Names {
        let isFirst = !newFiles.hasLog
        let nonce = UInt64.random(in: 1 ... .max)
        let names = try write { tables throws(JournalError) in
            if isFirst { try tables.set(CloseLogMark(boot: boot, nonce: nonce)) }
            return try tables.reserveNames()
        }
        if isFirst {
            newFiles.beginLog(nonce: nonce)
            closeLog.makeRoomForClaims()
        }
        return names
    }

    /// Makes the staging files of the next new files ahead, as many as ``preparedLimit``; on ext4 that is a tenth of what a
    /// small file costs its writer.
    package func prepareNewFiles() throws(SystemError) {
        newFiles.closeUnused(beyond: Self.preparedLimit)
        for name in newFiles.unprepared(Self.preparedLimit) {
            let flags = O_RDWR | O_NOFOLLOW | O_CREAT
            newFiles.keep(try FileDescriptor.open(stagingPath(GenerationID(name)), flags), for: name)
        }
    }

    /// Takes away what ``prepareNewFiles()`` made for files that do not come.
    package func discardPreparedFiles() {
        newFiles.discardPrepared { generation in
            do throws(SystemError) {
                try removeStaging(generation)
            } catch {
                // An empty file, which the next start takes away.
                Log.debug("journal", "\(error)")
            }
        }
    }

    /// The most staging files that are made ahead.
    private static let preparedLimit = 64

    /// Writes the rows of new files when one of them is older than `age` seconds; whether some have none yet.
    package func writeNewFiles(olderThan age: Double) throws(JournalError) -> Bool {
        let time = monotonicSeconds() - age
        if newFiles.contains(where: { $0.since <= time }) { try write { _ in } }
        return newFiles.areAny
    }

    /// Writes the rows of new files that a read may concern.
    func writeNewFiles(_ subject: NewFile.Subject = .anything) throws(JournalError) {
        try adoptCloses()
        guard newFiles.contains(subject) else { return }
        do throws(JournalError) {
            try write { _ in }
        } catch {
            // Not every read is to fail for it from now on.
            newFiles.noteFailure()
            throw error
        }
    }
}

extension JournalNode {
    init(
        new id: NodeID,
        _ generation: GenerationID,
        at path: ObjectKey,
        _ attributes: FileAttributes,
        now: Timestamp
    ) {
        self.init(
            id: id,
            path: path,
            kind: .file,
            attributes: attributes,
            generation: Generation(
                id: generation,
                content: ContentMap(size: 0),
                underlay: .none,
                isSealed: false,
                isSynced: false,
                revision: 0
            ),
            base: .absent,
            hasRemoteDirectory: false,
            isOpen: true,
            changedAt: now,
            attributeSequence: 0,
            sequence: 0,
            firstSequence: 0,
            schedule: Schedule()
        )
    }
}

extension Tables {
    /// Writes the rows of new files, that of `seal` complete; whether that was among them.
    func insert(
        _ waiting: NewFiles.Waiting,
        _ sequence: ChangeSequence,
        _ seal: NewFile.Seal?
    ) throws(JournalError) -> Bool {
        var hasSealed = false
        let lastSerial = waiting.files.compactMap { $0.close?.serial }.max()
        let mark = lastSerial == nil ? nil : try closeLogMark()
        for file in waiting.files {
            if let close = file.close {
                // Another process may have made the row, and by now have sent the file and taken the row away.
                if close.serial > mark?.serial ?? 0 { try insert(file, sequence, close.seal) }
                continue
            }
            let own = seal.flatMap { $0.node == file.node.id ? $0 : nil }
            try insert(file, sequence, own)
            if own != nil { hasSealed = true }
        }
        if let lastSerial, var mark, lastSerial > mark.serial {
            mark.serial = lastSerial
            try set(mark)
        }
        try noteUnused(waiting.firstUnused)
        return hasSealed
    }

    /// Writes the row of a new file, complete with `seal`.
    func insert(
        _ file: NewFile,
        _ sequence: ChangeSequence,
        _ seal: NewFile.Seal?
    ) throws(JournalError) {
        var node = file.node
        node.attributeSequence = sequence
        node.sequence = sequence
        node.firstSequence = sequence
        if let seal {
            node.isOpen = false
            node.changedAt = seal.now
            node.attributes.modified = seal.modified ?? node.attributes.modified
        }
        let content = seal?.content ?? ContentMap(size: 0)
        node.generation = try insertGeneration(
            content,
            .none,
            isSealed: seal != nil,
            as: file.generation,
            hasBytes: true
        )
        try insertBesideOthers(node)
        if let seal { try noteChecksums(of: file.generation, sealed: seal.checksums) }
    }

    /// Writes the row of a new file, under a name of its own where another process has put something there meanwhile:
    /// the flusher takes names for conflict copies.
    private func insertBesideOthers(_ node: JournalNode) throws(JournalError) {
        var row = node
        try change(row.sequence, row.changedAt).leaveLostName(row.path)
        for attempt in 1... {
            do throws(JournalError) {
                _ = try insert(row, as: node.id)
                break
            } catch {
                guard error.kind == .constraint, attempt < Self.mostNames else { throw error }
                let host = HostName.current
                row.path = ConflictName.path(for: node.path, at: node.changedAt, host: host, attempt: attempt)
            }
        }
        guard row.path != node.path else { return }
        Log.warning("journal", "\(node.path): something else took its name; it is kept as \(row.path)")
    }

    /// How many names are tried.
    private static let mostNames = 1000

    /// Takes names for rows and generations out of the counters.
    fileprivate func reserveNames() throws(JournalError) -> NewFiles.Names {
        let nodes = try reserve("node")
        let generations = try reserve("generation")
        try noteUnused(generations.lowerBound)
        try connection.run("INSERT OR REPLACE INTO meta VALUES ('taken', ?)", [.integer(generations.upperBound)])
        return NewFiles.Names(nodes: nodes, generations: generations)
    }

    private func reserve(_ table: String) throws(JournalError) -> Range<Int64> {
        let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?"
        let last = try connection.first(sql, [.text(table)]) { $0.integer(0) }
        let next = (last ?? 0) + NewFiles.Names.count
        if last == nil {
            try connection.run("INSERT INTO sqlite_sequence VALUES (?, ?)", [.text(table), .integer(next)])
        } else {
            try connection.run("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", [.integer(next), .text(table)])
        }
        return (last ?? 0) + 1..<next + 1
    }

    private func noteUnused(_ name: Int64) throws(JournalError) {
        try connection.run("INSERT OR REPLACE INTO meta VALUES ('unused', ?)", [.integer(name)])
    }

    func forgetNamesOfNewFiles() throws(JournalError) {
        try connection.run("DELETE FROM meta WHERE key IN ('unused', 'taken')")
    }

    /// The names of staging files that may be those of new files.
    func namesOfNewFiles() throws(JournalError) -> Range<Int64> {
        let sql = "SELECT value FROM meta WHERE key = ?"
        guard let first = try connection.first(sql, [.text("unused")], { $0.integer(0) }),
            let end = try connection.first(sql, [.text("taken")], { $0.integer(0) }), first < end
        else { return 0..<0 }
        return first..<end
    }
}
