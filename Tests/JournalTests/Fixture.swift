// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Glibc
import Journal
import Platform

/// A journal in a directory of its own, and the steps that most tests take.
final class Fixture {
    let scratch: Scratch
    var journal: Journal
    var report: RecoveryReport

    let old = ObjectVersion.tagged("old", 10)
    let new = ObjectVersion.tagged("new", 4)

    /// What the disk is told to fail.
    let faults = DiskFaults()

    init() throws {
        scratch = try Scratch()
        (journal, report) = try Journal.recovering(directory: scratch.path, boot: "one", disk: faults.disk)
    }

    /// The remote has a file of ten bytes.
    var remoteFile: RemoteState { .file(old, .file()) }

    func recover(boot: String = "one") throws {
        (journal, report) = try Journal.recovering(directory: scratch.path, boot: boot, disk: faults.disk)
    }

    /// Opens a file that is at the remote, or new, and writes to it.
    func write(_ path: ObjectKey, _ text: String = "data", at offset: Int64 = 0) throws -> (JournalNode, ContentMap) {
        let existing = try journal.node(at: path)
        let node =
            try existing == nil || existing?.isTombstone == true
            ? journal.createFile(at: path, attributes: .file(), remote: .absent)
            : journal.beginWriting(at: path, remote: .absent)
        return (node, try put(node, text, at: offset))
    }

    func put(_ node: JournalNode, _ text: String, at offset: Int64 = 0) throws -> ContentMap {
        guard let generation = node.generation else { throw Failure("no generation") }
        let staging = try journal.openStaging(generation.id, creating: true)
        try Array(text.utf8).withUnsafeBytes { try staging.write($0, at: offset) }
        var content = generation.content
        content.write(ByteRange(offset: offset, count: Int64(text.utf8.count)))
        return content
    }

    /// A closed file with local bytes.
    @discardableResult
    func save(_ path: ObjectKey, _ text: String = "data") throws -> JournalNode {
        let (node, content) = try write(path, text)
        guard let generation = node.generation else { throw Failure("no generation") }
        try journal.seal(node.id, generation.id, content: content, modified: nil)
        return try row(path)
    }

    /// A file of the remote with its first bytes changed, closed.
    @discardableResult
    func edit(_ path: ObjectKey, _ text: String = "edit") throws -> JournalNode {
        let node = try journal.beginWriting(at: path, remote: remoteFile)
        let content = try put(node, text)
        guard let generation = node.generation else { throw Failure("no generation") }
        try journal.seal(node.id, generation.id, content: content, modified: nil)
        return try row(path)
    }

    func row(_ path: ObjectKey) throws -> JournalNode {
        guard let node = try journal.node(at: path) else { throw Failure("no row at \(path)") }
        return node
    }

    /// Begins an upload, after the group sync.
    func begin(_ path: ObjectKey, _ method: TransferProtocol = .put) throws -> Transfer {
        try synchronize()
        guard let transfer = try journal.beginTransfer(of: try row(path), method: method) else {
            throw Failure("no transfer of \(path)")
        }
        return transfer
    }

    func synchronize() throws {
        try journal.markSynced(try journal.unsyncedGenerations())
    }

    func paths() throws -> [String] {
        try journal.descendants(of: .root).map(\.path.string).sorted()
    }

    func staging() throws -> Int { try Files.names(in: "\(scratch.path)/staging").count }

    func quarantined() throws -> [String] { try Files.names(in: "\(scratch.path)/quarantine").map(\.string).sorted() }

    /// Runs SQL on the journal's file, as nothing but damage would.
    func damage(_ sql: String) throws {
        let database = try Database(path: "\(scratch.path)/journal.sqlite")
        try database.read { connection throws(DatabaseError) in try connection.script(sql) }
    }
}
