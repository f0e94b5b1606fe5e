// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Glibc
internal import Platform
internal import Synchronization

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

    /// Where closes are noted.
    private struct Noted {
        let nonce: UInt64
        var lastSerial: UInt64 = 0
        var end = 0
    }

    private struct State {
        var files: [NewFile] = []
        /// How many of the first of them a transaction is writing down.
        var underWay = 0
        /// Nil until this process has begun the close log.
        var log: Noted?
        var names = Names()
        /// Open staging files, made ahead, by the names that the next new files get.
        var prepared: [Int64: Int32] = [:]
        /// Their rows could not be written: what is read shows nothing of them until a transaction succeeds.
        var hasFailed = false

        /// Where a file is that no transaction is writing down.
        func index(of node: NodeID) -> Int? {
            guard !hasFailed, let index = files.lastIndex(where: { $0.node.id == node }), index >= underWay else {
                return nil
            }
            return index
        }

        /// Writes a record of a file's close; nil where its row has to be made now.
        ///
        /// Where it was closed before, the record takes the place of the one before, unless another process has made a row
        /// of that, or is about to: then the new one counts for nobody.
        mutating func note(_ file: NewFile, _ seal: NewFile.Seal, in closeLog: CloseLog) -> NewFile.Close? {
            guard let own = log else { return nil }
            // What is in the log has rows, but for what is closed here.
            let offset = files.contains { $0.close != nil } ? own.end : 0
            let serial = own.lastSerial + 1
            let record = CloseRecord(file, seal, serial: serial)?.encoded(nonce: own.nonce)
            guard let record, offset + record.count <= CloseLog.limit else { return nil }
            do throws(SystemError) {
                let before = file.close?.claim
                if let before, !before.isOver { return nil }
                let claim = try closeLog.claim()
                try closeLog.write(record, at: offset)
                log = Noted(nonce: own.nonce, lastSerial: serial, end: offset + record.count)
                if let before, try closeLog.claim() != before { return nil }
                return NewFile.Close(seal: seal, serial: serial, claim: before ?? claim)
            } catch {
                // A transaction may find room, or has the caller told why not.
                Log.debug("journal", "\(error)")
                return nil
            }
        }
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

    /// Whether this process notes closes: what is in the close log is known here.
    var hasLog: Bool { state.withLock { $0.log != nil } }

    /// The close log begins anew, with nothing in it that has a serial and this nonce.
    func beginLog(nonce: UInt64) {
        state.withLock { $0.log = Noted(nonce: nonce) }
    }

    /// Notes the close of a file without a row in the log, so that the row may come later; false where it has to be made
    /// now.
    func close(_ node: NodeID, _ seal: () -> NewFile.Seal, in log: CloseLog) -> Bool {
        state.withLock { state in
            guard let index = state.index(of: node), state.files[index].close == nil,
                let close = state.note(state.files[index], seal(), in: log)
            else { return false }
            state.files[index].close = close
            return true
        }
    }

    /// Changes attributes of a file without a row; false where it has one, or gets one just now.
    func change(
        _ node: NodeID,
        at path: ObjectKey,
        _ changes: AttributeChanges,
        now: Timestamp,
        in log: CloseLog
    ) -> Bool {
        state.withLock { state in
            guard let index = state.index(of: node), state.files[index].node.path == path else { return false }
            var file = state.files[index]
            file.node.attributes = file.node.attributes.applying(changes)
            file.node.changedAt = now
            if let seal = file.close?.seal {
                guard let close = state.note(file, seal.with(changes.modified, now: now), in: log) else { return false }
                file.close = close
            }
            state.files[index] = file
            return true
        }
    }

    /// Those whose rows a transaction has to begin with; nil when there are none.
    ///
    /// ``remove(_:)`` or ``abandon()`` has to follow.
    func waiting() -> Waiting? {
        guard count.load(ordering: .sequentiallyConsistent) > 0 else { return nil }
        return state.withLock { state in
            guard !state.files.isEmpty else { return nil }
            state.underWay = state.files.count
            return Waiting(files: state.files, firstUnused: state.names.generations.lowerBound)
        }
    }

    /// Whether a read has to make rows first.
    ///
    /// Where they could not be written, who reads of something else is not to fail for it; but nobody is told that a file is
    /// not there which was closed.
    func contains(_ subject: NewFile.Subject) -> Bool {
        guard count.load(ordering: .sequentiallyConsistent) > 0 else { return false }
        return state.withLock { state in
            state.files.contains { file in
                (!state.hasFailed || file.close != nil && subject.isNamed) && subject.includes(file)
            }
        }
    }

    /// Whether there is such a file.
    func contains(where condition: (NewFile) -> Bool) -> Bool {
        guard count.load(ordering: .sequentiallyConsistent) > 0 else { return false }
        return state.withLock { $0.files.contains(where: condition) }
    }

    var areAny: Bool { count.load(ordering: .sequentiallyConsistent) > 0 }

    func noteFailure() {
        state.withLock { $0.hasFailed = true }
    }

    /// They have rows now.
    func remove(_ written: Waiting?) {
        guard let written else { return }
        state.withLock { state in
            state.files.removeFirst(written.files.count)
            state.underWay = 0
            state.hasFailed = false
            count.store(state.files.count, ordering: .sequentiallyConsistent)
        }
    }

    /// The transaction came to nothing: they have no rows yet.
    ///
    /// To be called before the next one begins. `isFailing`: so might the next.
    func abandon(isFailing: Bool) {
        state.withLock { state in
            state.underWay = 0
            if isFailing { state.hasFailed = true }
        }
    }
}
