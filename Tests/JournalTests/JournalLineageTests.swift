// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Journal
import Platform
import Testing

/// What a mount may rely on while a flusher changes the same rows.
@Suite struct JournalLineageTests {
    private let fixture: Fixture
    private var journal: Journal { fixture.journal }

    init() throws { fixture = try Fixture() }

    @Test func aRowThatFollowsAForeignVersionIsAnotherRow() throws {
        let row = try #require(
            try journal.setAttributes(at: "a", remote: fixture.remoteFile, AttributeChanges(permissions: 0o600))
        )
        let sequence = try journal.currentSequence()
        let rebased = try #require(try journal.rebase(row, onto: .version(fixture.new)))
        #expect(rebased.id != row.id && rebased.path == row.path && rebased.attributes == row.attributes)
        #expect(try journal.nodes(changedAfter: sequence).map(\.id) == [rebased.id])
        #expect(rebased.firstSequence == row.firstSequence)
    }

    @Test func aRowRebasedOnTheSameContentStaysTheSame() throws {
        let row = try #require(
            try journal.setAttributes(at: "a", remote: fixture.remoteFile, AttributeChanges(permissions: 0o600))
        )
        #expect(try journal.rebase(row, onto: .version(fixture.old))?.id == row.id)
    }

    /// A content that was opened for writing keeps its name, and what is written goes over the version that it was made from.
    @Test func aForeignVersionIsNotBelievedOfWhatIsBeingWritten() throws {
        let row = try #require(
            try journal.setAttributes(at: "a", remote: fixture.remoteFile, AttributeChanges(permissions: 0o600))
        )
        let opened = try journal.beginWriting(at: "a", remote: fixture.remoteFile)
        #expect(opened.generation?.id == row.generation?.id)
        #expect(try journal.rebase(row, onto: .version(fixture.new)) == nil)
        #expect(throws: JournalError.self) { try journal.followSource(row, version: fixture.new) }
        try fixture.save("a", "ours")
        #expect(try journal.rebase(row, onto: .version(fixture.new)) == nil)
        #expect(try fixture.row("a").base == row.base)
        // Where there is nothing, nothing is overwritten.
        #expect(try journal.rebase(row, onto: .absent)?.base == .absent)
    }

    /// The content below gets to the remote, and with it what others had stored there, before the row is worked on.
    @Test func whatARowStandsOnIsPartOfWhatWasRead() throws {
        try fixture.save("a", "sent")
        let transfer = try fixture.begin("a")
        let opened = try journal.beginWriting(at: "a", remote: .absent)
        try journal.seal(
            opened.id,
            try #require(opened.generation).id,
            content: ContentMap(size: 5, underlayLength: 4),
            modified: nil
        )
        try journal.rename(from: "a", to: "b", sourceRemote: .absent, targetRemote: .absent)
        let row = try fixture.row("b")
        #expect(try journal.blockers(of: row).contains(.generation(try #require(transfer.generation))))
        _ = try journal.completeTransfer(transfer.id, version: fixture.new)
        #expect(try fixture.row("b").base == row.base)
        #expect(throws: JournalError.self) { try journal.blockers(of: row) }
        #expect(try journal.blockers(of: fixture.row("b")).isEmpty)
    }

    @Test func aRenameThatFollowsItsSourceIsAnotherRow() throws {
        let row = try #require(
            try journal.rename(from: "a", to: "b", sourceRemote: fixture.remoteFile, targetRemote: .absent)
        )
        #expect(try journal.followSource(row, version: fixture.new))
        let followed = try #require(try journal.node(at: "b"))
        #expect(followed.id != row.id && followed.generation?.wholeRemote?.version == fixture.new)
    }

    /// An upload ends between a mount's look at the row and its change: what it learned of the remote before is old.
    @Test func whatTheRemoteHasIsAskedForWithinTheChange() throws {
        try fixture.save("a")
        let committed = RemoteState.file(fixture.new, .file())
        let transfer = try fixture.begin("a")
        _ = try journal.completeTransfer(transfer.id, version: fixture.new)
        #expect(try journal.node(at: "a") == nil)
        try journal.remove(at: "a", remote: committed)
        #expect(try journal.node(at: "a")?.base == .version(fixture.new))
    }

    @Test func aForeignFileIsNotReplacedByANewOne() throws {
        #expect(throws: JournalError.self) {
            try journal.createFile(at: "a", attributes: .file(), remote: fixture.remoteFile)
        }
        try journal.remove(at: "a", remote: fixture.remoteFile)
        #expect(try journal.createFile(at: "a", attributes: .file(), remote: .absent).base == .version(fixture.old))
    }
}
