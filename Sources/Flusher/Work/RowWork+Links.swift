// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Journal
internal import ObjectStore

extension RowWork {
    /// Has the object by one more name of a file become a copy of the one by its first name, which is at the remote.
    func makeLink(_ node: JournalNode) throws(WorkFailure) {
        let known = try firstName(node)
        guard case .remote(let first) = known else {
            // Who moves names meanwhile has the row looked at once more.
            if known == .changed { throw .changed }
            throw .attention("the file that this was another name of is not known any more")
        }
        guard let (version, metadata) = try presentObject(first) else {
            // The file may have another first name since, which its object had before this was asked.
            guard try firstName(node) == known else { throw .changed }
            throw .attention("\(first), the file that this is another name of, is gone at the remote")
        }
        // What says nothing of attributes looks as it did where the name was given.
        let isTold = metadata.mode != nil || node.attributes.mode == 0
        let attributes = isTold ? FileAttributes(metadata, version) : node.attributes
        let copy = try journal { (journal) throws(JournalError) in
            try journal.copyLink(node, from: first, version, attributes)
        }
        guard let copy else { throw .changed }
        try clearBlockers(of: copy)
        try makeObject(copy)
    }

    private func firstName(_ node: JournalNode) throws(WorkFailure) -> KnownFirstName {
        try journal { (journal) throws(JournalError) in try journal.firstName(of: node) }
    }

    /// The object of a file that has no row, and its metadata: as it was seen last, as the copy is made of that version or
    /// not at all, else as the remote has it now; nil where that has none.
    private func presentObject(_ key: ObjectKey) throws(WorkFailure) -> (ObjectVersion, ObjectMetadata)? {
        if let entry = session.catalog.known(key), entry.kind == .file, !entry.needsValidation,
            let version = entry.version, let metadata = entry.metadata
        {
            return (version, metadata)
        }
        let moment = session.catalog.moment()
        let found = try status(of: key)
        if let moment { session.catalog.found(key, found, since: moment) }
        guard let found else { return nil }
        return (found.version, found.metadata)
    }
}
