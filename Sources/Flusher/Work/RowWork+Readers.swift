// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal

/// Programs that still read what is to be deleted or replaced: files that lost their names while they were open.
extension RowWork {
    /// Throws `inUse` while the deletion or replacement of an object is to wait for them.
    func awaitReaders(
        of key: ObjectKey,
        _ version: ObjectVersion,
        as change: @autoclosure () throws(WorkFailure) -> ReaderWait.Change
    ) throws(WorkFailure) {
        let verdict = try session.readers.ask(key, version, isAwaited: job.isAwaited, as: change)
        if case .wait(let seconds, let reason) = verdict { throw .inUse(seconds, reason) }
    }

    /// The same for a row that was held up at its last step before: the steps before that are not to be done each time.
    func awaitKnownReaders(of key: ObjectKey, _ base: RemoteBase) throws(WorkFailure) {
        guard case .version(let version) = base, session.readers.areWaitedFor(key, version) else { return }
        try awaitReaders(of: key, version, as: .replacement)
    }

    /// Whether a file is to take the place of a folder that a removed one was in: it waits for the removal.
    func isInTheWay(_ node: JournalNode) throws(WorkFailure) -> Bool {
        var folder = node.path.parent
        while !folder.isRoot {
            let path = folder
            let row = try journal { (journal) throws(JournalError) in try journal.node(at: path) }
            if let row, row.kind == .file || row.kind == .symbolicLink { return true }
            folder = folder.parent
        }
        return false
    }
}

extension VolumeSession {
    /// Whether a row was held up a moment ago by programs that still read what it would replace.
    func waitsForReaders(_ node: JournalNode) -> Bool {
        let transfer = transfer(of: node)
        guard case .version(let version) = transfer?.base ?? node.base else { return false }
        return readers.areWaitedFor(transfer?.key ?? node.path, version)
    }
}
