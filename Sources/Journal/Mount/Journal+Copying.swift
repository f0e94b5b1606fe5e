// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Platform

extension Journal {
    /// A new file, open for writing, that goes on with what another one held whose name others have taken.
    ///
    /// `path` is that name, where something is there: then `name` is that of a conflict copy, and `met` the version of theirs,
    /// where it is known. `place` gives the generation its staging file, which has all the bytes: nobody sees the row before.
    /// It is for the caller to take that back when this throws. Until it is recorded or sealed the row says nothing of the
    /// bytes, as that of any new file, and power loss leaves nothing of it. `.constraint` when something is at `name`, or
    /// was once copied there.
    package func beginCopy(
        at name: ObjectKey,
        of path: ObjectKey?,
        _ attributes: FileAttributes,
        met: ObjectVersion?,
        now: Timestamp = .now(),
        place: (GenerationID) throws(JournalError) -> Void
    ) throws(JournalError) -> JournalNode {
        try change(at: now) { change throws(JournalError) in
            let tables = change.tables
            if path != nil, try tables.connection.exists("SELECT 1 FROM conflict WHERE copy = ?", [.key(name)]) {
                throw JournalError(.constraint, "journal: the name of the copy is taken")
            }
            var node = try change.newNode(at: name, .file, attributes, .absent)
            let generation = try tables.insertGeneration(ContentMap(size: 0), .none, isSealed: false)
            node.generation = generation
            node.isOpen = true
            node.conflictOf = path
            // A folder's sync takes what was never recorded for an empty file.
            _ = try tables.record(generation.id, ContentMap(size: 0), isSealed: false, isSynced: false)
            if let path { try tables.noteConflict(of: path, copy: name, met, at: now) }
            let inserted = try change.insert(node)
            try place(generation.id)
            return inserted
        }
    }

    /// Takes back ``beginCopy(at:of:_:met:now:place:)`` where nothing was written, nor anything else done with the file since,
    /// which began as `name`.
    ///
    /// False when it was: then it is one like any other.
    package func giveUpCopy(
        _ node: NodeID,
        _ generation: GenerationID,
        at name: ObjectKey
    ) throws(JournalError) -> Bool {
        try write { tables throws(JournalError) in
            // A sync of it records only what was copied.
            guard let row = try tables.node(node), row.generation?.id == generation, row.path == name,
                row.attributeSequence == row.firstSequence, row.base == .absent,
                try tables.linkedName(at: row.path) == nil
            else { return false }
            if row.conflictOf != nil { try tables.forgetConflict(row.path) }
            try tables.delete(row)
            return true
        }
    }
}
