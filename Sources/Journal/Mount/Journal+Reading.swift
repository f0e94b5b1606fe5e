// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database

extension Journal {
    /// The row at a path; nil: the remote's state is what shall be.
    ///
    /// A tombstone hides what the catalog says.
    package func node(at path: ObjectKey) throws(JournalError) -> JournalNode? {
        try read(.path(path)) { tables throws(JournalError) in try tables.node(at: path) }
    }

    /// The row with a name, wherever it is now.
    package func node(_ id: NodeID) throws(JournalError) -> JournalNode? {
        try read(.row(id)) { tables throws(JournalError) in try tables.node(id) }
    }

    /// The rows directly in a folder, tombstones included, in no order.
    package func children(of folder: ObjectKey) throws(JournalError) -> [JournalNode] {
        try read(.folder(folder)) { tables throws(JournalError) in
            try tables.children(of: folder)
        }
    }

    /// The rows of some names of a folder, tombstones included, on one snapshot; names without a row are left out.
    package func nodes(
        _ names: [ObjectKey],
        in folder: ObjectKey
    ) throws(JournalError) -> [ObjectKey: JournalNode] {
        try snapshot(.folder(folder)) { tables throws(JournalError) in
            // A folder with fewer rows than that is read at once.
            var nodes = try tables.children(of: folder, limit: names.count + 1)
            if nodes.isEmpty { return [:] }
            if nodes.count > names.count {
                nodes = []
                for name in names {
                    if let node = try tables.node(at: folder.appending(name)) { nodes.append(node) }
                }
            }
            let wanted = Set(names)
            let found = nodes.map { ($0.path.name, $0) }.filter { wanted.contains($0.0) }
            return Dictionary(found) { first, _ in first }
        }
    }

    /// The names that have rows directly in a folder, and whether each is a folder; nil when there are more than `limit`.
    package func names(in folder: ObjectKey, limit: Int) throws(JournalError) -> [ObjectKey: Bool]? {
        try read { tables throws(JournalError) in try tables.names(in: folder, limit: limit) }
    }

    /// The rows anywhere below a folder, tombstones included, its own not; on one snapshot.
    package func descendants(of folder: ObjectKey) throws(JournalError) -> [JournalNode] {
        try snapshot { tables throws(JournalError) in try tables.descendants(of: folder) }
    }

    /// Whether there is any row below a folder.
    package func hasDescendants(_ folder: ObjectKey) throws(JournalError) -> Bool {
        try read { tables throws(JournalError) in try tables.hasDescendants(folder) }
    }

    /// Whether an upload to a key may have replaced the object there just now.
    package func isCommitting(_ key: ObjectKey) throws(JournalError) -> Bool {
        try read { tables throws(JournalError) in try tables.isCommitting(key) }
    }

    package func generation(_ id: GenerationID) throws(JournalError) -> Generation? {
        try read(.generation(id)) { tables throws(JournalError) in try tables.generation(id) }
    }

    /// Where the bytes of a range of a generation are; clipped at its size.
    ///
    /// `.notFound` when an underlay is gone.
    package func segments(
        of generation: Generation,
        in range: ByteRange
    ) throws(JournalError) -> [ContentSegment] {
        try snapshot { tables throws(JournalError) in
            try ContentSegment.resolve(range, in: generation) { id throws(JournalError) in try tables.generation(id) }
        }
    }
}
