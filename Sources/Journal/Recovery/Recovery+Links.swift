// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database

/// Names of files that have several, of which some may be lost.
extension Recovery {
    /// Takes away names of which nothing is left that they could show.
    ///
    /// The rows have been recovered: a first name without a row is what the remote has, if it ever got anything.
    mutating func recoverLinks() throws(JournalError) {
        let files = try tables.connection.all("SELECT DISTINCT file FROM link") { $0.integer(0) }
        for file in files { try recoverLinks(of: file) }
        // Those that no file is known for.
        for row in try tables.nodes("WHERE n.kind = \(NodeKind.hardLink.rawValue)") {
            guard try tables.linkedName(at: row.path) == nil else { continue }
            try giveUp(row)
        }
    }

    private mutating func recoverLinks(of file: Int64) throws(JournalError) {
        let names = try tables.linkedNames(of: file)
        guard let first = names.first(where: \.isFirst), try isThere(first) else {
            // What is at the remote by the other names are files like others.
            return try tables.forgetLinks(of: file)
        }
        // A lost row may have told that the name stands over another file's object, which is to be copied over no other.
        let row = try tables.node(at: first.path)
        for link in names where !link.isFirst {
            var isSeparate = try !isThere(link)
            if hasLostRows, row == nil, try tables.node(at: link.path) == nil { isSeparate = true }
            if isSeparate { try tables.separate(link) }
        }
        if try tables.linkCount(of: file) == 1 { try tables.forgetLinks(of: file) }
    }

    /// Whether a name still shows its file: by its row, or by what the remote has there.
    ///
    /// A name without a row is an object that is known. Where the row alone told what the remote has, and was lost, that may
    /// be another file's.
    private func isThere(_ link: LinkedName) throws(JournalError) -> Bool {
        if let row = try tables.node(at: link.path) { return row.kind != .tombstone && row.kind != .directory }
        return link.base != .absent && link.base != .unknown
    }

    /// Drops the row of a name whose file is gone: a new one that was not synced, as its name is then.
    private mutating func giveUp(_ row: JournalNode) throws(JournalError) {
        report.items.append(RecoveryReport.Item(path: row.path, outcome: hasLostRows ? .lost : .reverted))
        guard row.base != .absent || row.hasRemoteDirectory else { return try tables.delete(row) }
        // What the remote has there was removed before the name was given.
        var tombstone = row
        tombstone.kind = .tombstone
        tombstone.sequence = try tables.nextSequence()
        try tables.update(tombstone)
    }
}
