// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Journal
internal import ObjectStore
internal import Platform

extension RowWork {
    /// Copies at the remote; onto itself when only the metadata changes.
    ///
    /// False: the content must be sent instead.
    func copy(_ transfer: Transfer, _ node: JournalNode, source: CopySource) throws(WorkFailure) -> Bool {
        if transfer.phase == .committing, try recognise(transfer, node, source) { return true }
        if case .version(let version) = transfer.base {
            try awaitReaders(of: transfer.key, version, as: .replacement)
        }
        if source.key != transfer.key { try awaitWrites(at: transfer.key, over: source.version) }
        let metadata = try metadata(of: transfer, node)
        let mark = CopyMark(node.attributes, size: source.version.size, of: source.version)
        let recorder = JournalRecorder(session: session, transfer: transfer.id, method: .copy)
        do throws(StoreError) {
            try recorder.committing(expectedTag: mark.text)
        } catch {
            throw .store(error)
        }
        do throws(WorkFailure) {
            let version = try remote { (store) throws(StoreError) in
                try sending(metadata, of: node) { metadata throws(StoreError) in
                    try store.copy(
                        source.key,
                        sourceVersion: source.version,
                        to: transfer.key,
                        metadata: metadata,
                        condition: condition(transfer.base)
                    )
                }
            }
            try finish(transfer, node, version, others: others(of: metadata, transfer))
            return true
        } catch {
            guard case .store(let cause) = error else { throw error }
            if !cause.mayStillArrive { session.setAnswered(transfer.id, true) }
            switch cause.cause {
            case .unsupported, .tooLarge: return false
            case .preconditionFailed, .notFound: return try judge(transfer, node, source)
            default: throw error
            }
        }
    }

    /// Whether the target already is our copy, made by a request whose answer was lost.
    private func recognise(_ transfer: Transfer, _ node: JournalNode, _ source: CopySource) throws(WorkFailure) -> Bool
    {
        // A copy onto itself that did not happen shows the attributes of before, so it is not taken for ours.
        guard let mark = transfer.expectedTag.flatMap({ CopyMark($0) }), let found = try status(of: transfer.key),
            try isOurs(found, transfer, mark, source)
        else { return false }
        try finish(transfer, node, found.version)
        return true
    }

    private func isOurs(
        _ found: ObjectStatus,
        _ transfer: Transfer,
        _ mark: CopyMark,
        _ source: CopySource
    ) throws(WorkFailure) -> Bool {
        // What stood there before, and looks the same without being it, would be taken for the copy of what is deleted next.
        if source.key != transfer.key, matches(transfer.base, found.version) { return false }
        if mark.matches(found) { return true }
        guard mark.looksLike(found), let original = try status(of: source.key) else { return false }
        // The tag of an encrypted source has the form of one of content, and is none.
        return original.version.isSame(as: source.version) && !original.isTagOfContent
    }

    /// Finds out which of the two objects was not what the copy was conditional on.
    ///
    /// False: there is nothing to copy any more, and the content must be sent instead.
    private func judge(_ transfer: Transfer, _ node: JournalNode, _ source: CopySource) throws(WorkFailure) -> Bool {
        let target = try status(of: transfer.key)
        let mark = CopyMark(node.attributes, size: source.version.size, of: source.version)
        if let target, try isOurs(target, transfer, mark, source) {
            try finish(transfer, node, target.version)
            return true
        }
        if source.key == transfer.key {
            try rebaseOnItself(transfer, node, source, target)
            return true
        }
        let moment = session.catalog.moment()
        let found = try status(of: source.key)
        if let moment { session.catalog.found(source.key, found, since: moment) }
        // Whoever read it may have it.
        guard let found else { return false }
        guard try isUnchanged(found, transfer, node, source) else { return true }
        if matches(transfer.base, target?.version) {
            throw .store(StoreError(.temporary, "the remote refused a copy although nothing had changed"))
        }
        try conflict(transfer, node, target?.version)
        return true
    }

    /// New attributes on an object that changed at the remote: they go onto its new version, or with it.
    private func rebaseOnItself(
        _ transfer: Transfer,
        _ node: JournalNode,
        _ source: CopySource,
        _ found: ObjectStatus?
    ) throws(WorkFailure) {
        session.catalog.found(transfer.key, found)
        if let found, matches(transfer.base, found.version), found.version.isSame(as: source.version) {
            throw .store(StoreError(.temporary, "the remote refused new metadata although nothing had changed"))
        }
        try abandon(transfer)
        // Elsewhere it is a copy of what was found, or has to do without.
        guard node.path == transfer.key else { return }
        _ = try journal { (journal) throws(JournalError) in
            if let found { return try journal.rebase(node, onto: .version(found.version)) != nil }
            return try journal.drop(node)
        }
    }

    /// Whether the source is the version the row was made from; a newer one is followed where that loses nothing.
    private func isUnchanged(
        _ found: ObjectStatus,
        _ transfer: Transfer,
        _ node: JournalNode,
        _ source: CopySource
    ) throws(WorkFailure) -> Bool {
        if found.version.isSame(as: source.version) { return true }
        try abandon(transfer)
        let follows = try journal { (journal) throws(JournalError) in
            try journal.followSource(node, version: found.version)
        }
        guard follows else {
            throw .attention("\(source.key), which it was renamed from, changed at the remote")
        }
        return false
    }

    func matches(_ base: RemoteBase, _ found: ObjectVersion?) -> Bool {
        switch (base, found) {
        case (.absent, nil): true
        case (.version(let known), let found?): known.isSame(as: found)
        default: false
        }
    }
}
