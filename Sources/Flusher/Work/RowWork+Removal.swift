// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Journal
internal import ObjectStore
internal import Platform

extension RowWork {
    /// Takes away what the remote has at a tombstone: the object, then the folder's marker.
    func removeFromRemote(_ node: JournalNode) throws(WorkFailure) {
        if node.base == .absent, !node.hasRemoteDirectory { return try watch(node) }
        if case .version(let version) = node.base {
            try awaitReaders(of: node.path, version, as: try isInTheWay(node) ? .replacement : .removal)
            guard try deleteObject(node, version) else { return }
        }
        if node.hasRemoteDirectory { try removeMarker(node) }
        settings.publish(.committed(volume: session.id, path: node.path))
    }

    /// Deletes the object unless it changed; false when it did, and the row gave way.
    private func deleteObject(_ node: JournalNode, _ version: ObjectVersion) throws(WorkFailure) -> Bool {
        let request = try note(node, node.path, .deletion)
        do throws(WorkFailure) {
            try noted(request) { (store) throws(StoreError) in
                try store.delete(node.path, condition: .version(version))
            }
            try deleted(node, request)
            return true
        } catch {
            guard case .store(let cause) = error else { throw error }
            if cause.cause == .notFound {
                try deleted(node, try onlyDoubt(node.path, .deletion))
                return true
            }
            guard cause.cause == .preconditionFailed else { throw error }
        }
        guard let found = try status(of: node.path) else {
            try deleted(node, try onlyDoubt(node.path, .deletion))
            return true
        }
        // Refused although it is what we knew: no conflict, something else is wrong.
        if found.version.isSame(as: version) {
            throw .store(StoreError(.temporary, "the remote refused to delete an unchanged object"))
        }
        session.catalog.found(node.path, found)
        // A version of ours that came late: it is what is to go now.
        if try seeDoubt(node.path, found) { throw .changed }
        _ = try journal { (journal) throws(JournalError) in try journal.drop(node) }
        return false
    }

    /// Notes that the object is gone; `request`: the one that did it, if that is known.
    private func deleted(_ node: JournalNode, _ request: DoubtID?) throws(WorkFailure) {
        session.catalog.removed(node.path)
        _ = try journal { (journal) throws(JournalError) in
            try journal.completeObjectRemoval(at: node.path, request: request)
        }
        session.readers.forget(node.path, node.base)
    }

    /// Deletes the marker of a folder whose place something else takes, or nothing.
    func removeMarker(_ node: JournalNode) throws(WorkFailure) {
        let request = try note(node, node.path.marker, .deletion)
        do throws(WorkFailure) {
            try noted(request) { (store) throws(StoreError) in try store.delete(node.path.marker, condition: .none) }
        } catch {
            guard case .store(let cause) = error, cause.cause == .notFound else { throw error }
        }
        session.catalog.removedDirectory(node.path)
        _ = try journal { (journal) throws(JournalError) in
            try journal.completeDirectoryRemoval(at: node.path, request: request)
        }
    }

    /// Makes or renews a folder's marker, after the object at the folder's own name, if any, is gone.
    func makeFolder(_ node: JournalNode) throws(WorkFailure) {
        if case .version(let version) = node.base {
            try awaitReaders(of: node.path, version, as: .replacement)
            guard try deleteObject(node, version) else { return }
        }
        let found = try markerMetadata(of: node)
        guard let row = try journal({ (journal) throws(JournalError) in try journal.beginDirectory(node) }) else {
            throw .changed
        }
        let own = ObjectMetadata(row.attributes)
        let metadata = found.map { own.carrying($0) } ?? own
        let request = try note(row, row.path.marker, .write, tag: CopyMark(row.attributes, size: 0).text)
        try putMarker(row, request, metadata)
        session.catalog.committedDirectory(
            row.path,
            attributes: row.attributes,
            others: metadata.others(typeOfName: nil)
        )
        _ = try journal { (journal) throws(JournalError) in try journal.completeDirectory(row, request: request) }
        settings.publish(.committed(volume: session.id, path: row.path))
    }

    /// The metadata of a folder's marker, where there is one that may have more than attributes.
    private func markerMetadata(of node: JournalNode) throws(WorkFailure) -> ObjectMetadata? {
        guard let known = session.catalog.known(node.path), known.kind == .directory, known.hasMarker == true,
            known.surelyOthers != OtherMetadata.none
        else { return nil }
        return try status(of: node.path.marker).map { (found) throws(WorkFailure) in try stored(found) }
    }

    /// Puts a folder's marker.
    ///
    /// A remote that cannot keep one goes without, and shows the folder once it holds something.
    private func putMarker(
        _ row: JournalNode,
        _ request: DoubtID,
        _ metadata: ObjectMetadata
    ) throws(WorkFailure) {
        do throws(WorkFailure) {
            _ = try noted(request) { (store) throws(StoreError) in
                try sending(metadata, of: row) { metadata throws(StoreError) in
                    try store.put(
                        row.path.marker,
                        body: .empty,
                        metadata: metadata,
                        condition: .none,
                        progress: nil,
                        cancellation: job.cancellation
                    )
                }
            }
        } catch {
            guard case .store(let cause) = error, cause.cause == .unsupported else { throw error }
            Log.info("flusher", "\(row.path): the remote keeps no empty folders")
        }
    }
}
