// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Glibc
internal import Platform
internal import Synchronization

/// A file that was made a moment ago and has no row yet.
struct NewFile: Sendable {
    /// The row to be, but for its sequences.
    let node: JournalNode
    let generation: GenerationID
    /// Monotonic seconds.
    let since: Double

    /// What is read of the journal.
    enum Subject {
        case anything
        case path(ObjectKey)
        /// What is directly in a folder.
        case folder(ObjectKey)
        case row(NodeID)
        case generation(GenerationID)

        func includes(_ file: NewFile) -> Bool {
            switch self {
            case .anything: true
            case .path(let path): file.node.path == path
            case .folder(let path): file.node.path.parent == path
            case .row(let id): file.node.id == id
            case .generation(let id): file.generation == id
            }
        }
    }

    /// What a close gives a file.
    struct Seal {
        let node: NodeID
        let content: ContentMap
        let modified: Timestamp?
        let now: Timestamp
    }
}

/// The new files without a row, and the names that they are given.
///
/// Only the process that made them knows of them: every transaction of its begins with their rows, and every read that
/// may concern one makes its row first.
final class NewFiles: Sendable {
    /// Names that no other row or generation gets.
    struct Names: Sendable {
        static let count: Int64 = 256
        var nodes: Range<Int64> = 0..<0
        var generations: Range<Int64> = 0..<0
    }

    /// All files without a row, and the first name that no file has taken yet.
    struct Waiting {
        let files: [NewFile]
        let firstUnused: Int64
    }

    private struct State {
        var files: [NewFile] = []
        var names = Names()
        /// Open staging files, made ahead, by the names that the next new files get.
        var prepared: [Int64: Int32] = [:]
        /// Their rows could not be written: what is read shows nothing of them until a transaction succeeds.
        var hasFailed = false
    }

    private let state = Lock(State())
    /// How many there are, told without the lock.
    private let count = Atomic<Int>(0)
    /// Held while names are taken from the journal.
    private let reserving = Lock(())

    /// Adds a file, with names for it; nil when there are no names left.
    func add(_ make: (NodeID, GenerationID) -> NewFile) -> NewFile? {
        state.withLock { state in
            guard let node = state.names.nodes.first, let generation = state.names.generations.first else { return nil }
            state.names.nodes.removeFirst()
            state.names.generations.removeFirst()
            let file = make(NodeID(node), GenerationID(generation))
            state.files.append(file)
            count.store(state.files.count, ordering: .sequentiallyConsistent)
            return file
        }
    }

    /// The names of staging files that the next `count` new files will get, as far as they are known and have none.
    func unprepared(_ count: Int) -> [Int64] {
        state.withLock { state in
            state.names.generations.prefix(count).filter { state.prepared[$0] == nil }
        }
    }

    /// Keeps a staging file for the new file that will have its name, unless one has it already.
    func keep(_ file: consuming FileDescriptor, for name: Int64) {
        let raw = file.detach()
        let old = state.withLock { state -> Int32? in
            guard state.names.generations.contains(name) else { return raw }
            return state.prepared.updateValue(raw, forKey: name)
        }
        if let old { FileDescriptor(owning: old).close() }
    }

    /// The staging file of a new file that was made ahead, if there is one.
    func takePrepared(_ generation: GenerationID) -> FileDescriptor? {
        guard let raw = state.withLock({ $0.prepared.removeValue(forKey: generation.value) }) else { return nil }
        return FileDescriptor(owning: raw)
    }

    /// Closes staging files of new files that have not wanted theirs yet, but for those of the newest.
    ///
    /// A file is opened again by its name when bytes come, which of empty ones never do.
    func closeUnused(beyond limit: Int) {
        let old = state.withLock { state in
            let taken = state.prepared.keys.filter { !state.names.generations.contains($0) }
            guard taken.count > limit else { return [Int32]() }
            return taken.sorted().prefix(taken.count - limit).compactMap { state.prepared.removeValue(forKey: $0) }
        }
        for raw in old { FileDescriptor(owning: raw).close() }
    }

    /// Closes the files that were made ahead, and has `remove` delete those whose names no file has taken, nor takes
    /// meanwhile.
    func discardPrepared(_ remove: (GenerationID) -> Void) {
        state.withLock { state in
            for (name, raw) in state.prepared {
                FileDescriptor(owning: raw).close()
                if state.names.generations.contains(name) { remove(GenerationID(name)) }
            }
            state.prepared = [:]
        }
    }

    /// Takes names from the journal, unless another thread just did.
    func reserve(_ take: () throws(JournalError) -> Names) throws(JournalError) {
        try reserving.withLock { _ throws(JournalError) in
            guard state.withLock({ $0.names.nodes.isEmpty }) else { return }
            let names = try take()
            state.withLock { $0.names = names }
        }
    }

    /// Those whose rows a transaction has to begin with; nil when there are none.
    func waiting() -> Waiting? {
        guard count.load(ordering: .sequentiallyConsistent) > 0 else { return nil }
        return state.withLock { state in
            guard !state.files.isEmpty else { return nil }
            return Waiting(files: state.files, firstUnused: state.names.generations.lowerBound)
        }
    }

    /// Whether a read has to make rows first.
    func contains(where condition: (NewFile) -> Bool) -> Bool {
        guard count.load(ordering: .sequentiallyConsistent) > 0 else { return false }
        return state.withLock { !$0.hasFailed && $0.files.contains(where: condition) }
    }

    var areAny: Bool { count.load(ordering: .sequentiallyConsistent) > 0 }

    func noteFailure() {
        state.withLock { $0.hasFailed = true }
    }

    /// They have rows now.
    func remove(_ written: Waiting?) {
        guard let written else { return }
        let rows = Set(written.files.map(\.node.id))
        state.withLock { state in
            state.files.removeAll { rows.contains($0.node.id) }
            state.hasFailed = false
            count.store(state.files.count, ordering: .sequentiallyConsistent)
        }
    }
}

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
                try write { tables throws(JournalError) in try tables.reserveNames() }
            }
        }
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
        guard newFiles.contains(where: { subject.includes($0) }) else { return }
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
    fileprivate init(
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
        for file in waiting.files {
            let own = seal.flatMap { $0.node == file.node.id ? $0 : nil }
            try insert(file, sequence, own)
            if own != nil { hasSealed = true }
        }
        try noteUnused(waiting.firstUnused)
        return hasSealed
    }

    private func insert(
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
    }

    /// Writes the row of a new file, under a name of its own where another process has put something there meanwhile:
    /// the flusher takes names for conflict copies.
    private func insertBesideOthers(_ node: JournalNode) throws(JournalError) {
        var row = node
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

    /// The names of staging files that may be those of new files.
    func namesOfNewFiles() throws(JournalError) -> Range<Int64> {
        let sql = "SELECT value FROM meta WHERE key = ?"
        guard let first = try connection.first(sql, [.text("unused")], { $0.integer(0) }),
            let end = try connection.first(sql, [.text("taken")], { $0.integer(0) }), first < end
        else { return 0..<0 }
        return first..<end
    }
}
