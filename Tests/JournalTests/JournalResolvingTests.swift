// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Journal
import Testing

/// What a person decides about conflicts.
@Suite struct JournalResolvingTests {
    private let fixture: Fixture
    private var journal: Journal { fixture.journal }
    private let copy: ObjectKey = "a (conflict)"
    private let theirs = ObjectVersion.tagged("theirs", 7)

    init() throws { fixture = try Fixture() }

    /// `a` was edited here, and met `theirs`.
    private func conflict() throws -> ConflictRecord {
        let node = try fixture.edit("a")
        _ = try journal.moveToConflict(node, copy: copy, remote: theirs)
        return try #require(try journal.conflicts().first)
    }

    private func resolve(
        _ conflict: ConflictRecord,
        _ choice: ConflictChoice,
        _ remote: RemoteState = .absent,
        isFolder: Bool = false
    ) throws -> ConflictOutcome {
        try journal.resolve(conflict, choice, copyRemote: remote, isFolder: isFolder)
    }

    /// The copy is uploaded.
    private func arrive() throws {
        let transfer = try fixture.begin(copy)
        try journal.markCommitting(transfer.id, expectedTag: nil)
        _ = try journal.completeTransfer(transfer.id, version: fixture.new)
    }

    private func isRefused(_ outcome: ConflictOutcome) -> Bool {
        if case .refused = outcome { return true }
        return false
    }

    /// As with any other name that it gets.
    @Test(arguments: [true, false]) func aCopyThatChangesPlacesIsDealtWith(withFolder: Bool) throws {
        _ = try conflict()
        let other: ObjectKey = "b"
        if withFolder {
            _ = try journal.createDirectory(at: other, attributes: .directory(), remote: .absent)
            try journal.exchangeTrees(
                other,
                copy,
                firstRemote: .absent,
                secondRemote: .absent,
                firstEntries: [],
                secondEntries: []
            )
        } else {
            try fixture.save(other)
            try journal.exchange(other, copy, firstRemote: .absent, secondRemote: .absent)
        }
        #expect(try journal.conflicts().isEmpty && journal.counts().conflicts == 0)
        #expect(try fixture.row(other).size > 0 && fixture.row(copy).kind == (withFolder ? .directory : .file))
    }

    @Test func mineTakesThePlaceOfTheVersionThatWasMet() throws {
        let conflict = try conflict()
        #expect(conflict.version == theirs)
        #expect(try resolve(conflict, .mine) == .settled)
        let row = try fixture.row("a")
        #expect(row.base == .version(theirs) && row.kind == .file && row.conflictOf == nil && row.size > 0)
        #expect(try fixture.paths() == ["a"], "the copy was never at the remote")
        #expect(try journal.conflicts().isEmpty)
        #expect(try resolve(conflict, .mine) == .gone)
    }

    @Test func aCopyThatIsRemoteIsMovedThere() throws {
        let conflict = try conflict()
        try arrive()
        #expect(try fixture.paths().isEmpty)
        #expect(try resolve(conflict, .mine, .file(fixture.new, .file(0o640))) == .settled)
        let row = try fixture.row("a")
        #expect(row.base == .version(theirs) && row.generation?.wholeRemote?.key == copy)
        #expect(row.attributes.permissions == 0o640)
        #expect(try fixture.row(copy).isTombstone && fixture.row(copy).base == .version(fixture.new))
    }

    @Test func theirsRemovesTheCopyInEveryState() throws {
        let conflict = try conflict()
        #expect(try resolve(conflict, .theirs) == .settled)
        #expect(try fixture.paths().isEmpty && journal.conflicts().isEmpty)
    }

    @Test func theirsRemovesACopyThatIsRemote() throws {
        let conflict = try conflict()
        try arrive()
        #expect(try resolve(conflict, .theirs, .file(fixture.new, .file())) == .settled)
        #expect(try fixture.row(copy).isTombstone && fixture.row(copy).base == .version(fixture.new))
        #expect(try journal.conflicts().isEmpty)
    }

    @Test func bothLeavesEverythingAsItIs() throws {
        let conflict = try conflict()
        let row = try fixture.row(copy)
        #expect(try resolve(conflict, .both) == .settled)
        #expect(try journal.conflicts().isEmpty && journal.counts().conflicts == 0)
        let now = try fixture.row(copy)
        #expect(now.generation == row.generation && now.base == .absent && now.conflictOf == nil)
    }

    @Test func whatIsBeingWrittenIsNotTouched() throws {
        let conflict = try conflict()
        _ = try journal.beginWriting(at: copy, remote: .absent)
        for choice in [ConflictChoice.mine, .theirs, .both] {
            #expect(isRefused(try resolve(conflict, choice)))
        }
        #expect(try journal.conflicts().count == 1 && fixture.row(copy).isOpen)
    }

    @Test func mineTakesNoPlaceThatHasChangesOfItsOwn() throws {
        let conflict = try conflict()
        let node = try journal.beginWriting(at: "a", remote: .file(theirs, .file()))
        #expect(isRefused(try resolve(conflict, .mine)))
        try journal.remove(at: "a", remote: .file(theirs, .file()))
        #expect(try journal.node(node.id) == nil)
        #expect(isRefused(try resolve(conflict, .mine, isFolder: true)))
        // What was removed here was seen: ours replaces that.
        #expect(try resolve(conflict, .mine) == .settled)
        #expect(try fixture.row("a").base == .version(theirs) && fixture.row("a").kind == .file)
    }

    @Test func aCopyThatIsGoneCannotBeMine() throws {
        let conflict = try conflict()
        try arrive()
        #expect(isRefused(try resolve(conflict, .mine, .absent)))
        #expect(try journal.conflicts().count == 1)
        #expect(try resolve(conflict, .theirs, .absent) == .settled)
        #expect(try fixture.paths().isEmpty)
    }

    @Test func aConflictWithoutAVersionReplacesNothing() throws {
        _ = try conflict()
        try fixture.damage("UPDATE conflict SET tag = NULL, size = NULL, modified = NULL")
        let conflict = try #require(try journal.conflicts().first)
        #expect(conflict.version == nil)
        #expect(try resolve(conflict, .mine) == .settled)
        #expect(try fixture.row("a").base == .absent)
    }
}
