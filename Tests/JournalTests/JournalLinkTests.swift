// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Journal
import Testing

/// Files with several names, each with an object of its own.
@Suite struct JournalLinkTests {
    let fixture: Fixture
    var journal: Journal { fixture.journal }
    private let copied = ObjectVersion.tagged("copied", 10)

    init() throws { fixture = try Fixture() }

    func link(_ source: ObjectKey, _ target: ObjectKey, _ remote: RemoteState = .absent) throws {
        _ = try journal.link(source, to: target, attributes: .file(), sourceRemote: remote, targetRemote: .absent)
    }

    /// Two names of a file that is at the remote by the first, and copied to the other.
    func linkRemote(_ source: ObjectKey, _ target: ObjectKey, as version: ObjectVersion? = nil) throws {
        try link(source, target, fixture.remoteFile)
        #expect(try journal.copyLink(fixture.row(target), from: source, fixture.old, .file()) != nil)
        #expect(try arrive(target, version ?? copied, .copy) == .settled)
    }

    func arrive(
        _ path: ObjectKey,
        _ version: ObjectVersion,
        _ method: TransferProtocol = .put
    ) throws -> Completion {
        try journal.completeTransfer(fixture.begin(path, method).id, version: version)
    }

    @Test func anotherNameWaitsForTheFirst() throws {
        let file = try fixture.save("a")
        try link("a", "b")
        #expect(try journal.blockers(of: fixture.row("b")) == [.link(file.id)])
        #expect(try journal.copyLink(fixture.row("b"), from: "a", fixture.new, .file()) == nil)
        #expect(try arrive("a", fixture.new) == .settled)
        #expect(try journal.blockers(of: fixture.row("b")).isEmpty)
    }

    @Test func whoWaitsForTheFileWaitsForAllOfItsNames() throws {
        try linkRemote("a", "b")
        _ = try fixture.edit("a")
        let sequence = try journal.currentSequence()
        #expect(try journal.unsettledNodes(through: sequence).map(\.path) == ["a"])
        #expect(try arrive("a", fixture.new) == .settled)
        #expect(try journal.unsettledNodes(through: sequence).map(\.path) == ["b"])
        #expect(try fixture.row("b").base == .version(copied))
    }

    @Test func anotherFirstNameIsNoReasonToCopyAnew() throws {
        try linkRemote("a", "b")
        try journal.rename(from: "a", to: "c", sourceRemote: fixture.remoteFile, targetRemote: .absent)
        #expect(try arrive("c", fixture.new, .copy) == .settled)
        #expect(try fixture.paths() == ["a"], "nothing but the tombstone")
        #expect(try journal.linked(at: "b")?.first == "c")
    }

    @Test func whoHasAnOlderPictureOfANameIsToldSo() throws {
        try link("a", "b", fixture.remoteFile)
        let seen = try fixture.row("b")
        #expect(try journal.firstName(of: seen) == .remote("a"))
        try journal.rename(from: "b", to: "c", sourceRemote: .absent, targetRemote: .absent)
        #expect(try journal.firstName(of: seen) == .changed)
        #expect(try journal.firstName(of: fixture.row("c")) == .remote("a"))
        _ = try fixture.edit("a")
        #expect(try journal.firstName(of: fixture.row("c")) == .changed, "the file has to be sent first")
    }

    @Test func aCopyTakesThePlaceOfAFirstNameThatIsRemoved() throws {
        try linkRemote("a", "b")
        try link("a", "c", fixture.remoteFile)
        #expect(try journal.heir(of: "a") == "b")
        try journal.remove(at: "a", remote: fixture.remoteFile)
        #expect(try fixture.paths() == ["a", "c"] && fixture.row("a").isTombstone)
        #expect(try journal.linked(at: "c")?.first == "b" && journal.linkCount(at: "b") == 2)
        #expect(try fixture.row("a").base == .version(fixture.old))
    }

    @Test func whatIsNotSentYetGoesOnByAnotherName() throws {
        let file = try fixture.save("a")
        try link("a", "b")
        try journal.remove(at: "a", remote: .absent)
        #expect(try fixture.paths() == ["b"])
        #expect(try fixture.row("b").id == file.id && fixture.row("b").generation?.id == file.generation?.id)
        #expect(try journal.linkCount(at: "b") == 1)
    }

    @Test func whatTakesTheNameLeavesTheOthers() throws {
        try linkRemote("a", "b")
        try fixture.save("x")
        try journal.rename(from: "x", to: "a", sourceRemote: .absent, targetRemote: fixture.remoteFile)
        #expect(try fixture.row("a").base == .version(fixture.old))
        #expect(try journal.linkedName(at: "a") == nil && journal.linkCount(at: "b") == 1)
        #expect(try journal.node(at: "b") == nil)
    }

    @Test func whatOthersPutByANameIsTheirs() throws {
        try linkRemote("a", "b")
        let link = try #require(try journal.linkedName(at: "b"))
        try journal.separate(link)
        #expect(try journal.linkedName(at: "b") == nil && journal.linkCount(at: "a") == 1)
        #expect(try fixture.paths().isEmpty)
        try fixture.recover()
        #expect(try journal.linkedName(at: "a") == nil, "with one name it is a file like others")
    }

    @Test func whatOthersPutByTheFirstNameIsTheFile() throws {
        try linkRemote("a", "b")
        try journal.noteForeign(fixture.new, atFirst: "a", attributes: .file())
        try journal.noteForeign(fixture.new, atFirst: "a", attributes: .file())
        #expect(try fixture.paths() == ["b"] && fixture.row("b").kind == .hardLink)
        // There is no copy of that yet which the file could go on by, but an older one.
        try journal.noteForeign(nil, atFirst: "a", attributes: .file())
        #expect(try journal.linkedName(at: "b")?.isFirst == true && fixture.paths().isEmpty)
    }

    @Test func whatOthersPutByTheFirstNameIsTheFileAlsoWhereItHadARow() throws {
        try linkRemote("a", "b")
        try journal.setAttributes(at: "a", remote: fixture.remoteFile, AttributeChanges(permissions: 0o600))
        _ = try journal.rebase(fixture.row("a"), onto: .version(fixture.new))
        // It wants what the remote has again.
        let remote = RemoteState.file(fixture.new, .file())
        try journal.setAttributes(at: "a", remote: remote, AttributeChanges(permissions: 0o644))
        #expect(try fixture.paths() == ["b"] && fixture.row("b").kind == .hardLink)
    }

    @Test func whatWasNeverCopiedIsNotTakenForAFile() throws {
        try link("a", "b", fixture.remoteFile)
        try journal.noteForeign(nil, atFirst: "a", attributes: .file())
        #expect(try fixture.paths() == ["b"] && journal.linked(at: "b")?.first == "a")
    }

    @Test func aConflictByANameIsTheEndOfIt() throws {
        try linkRemote("a", "b")
        _ = try fixture.edit("a")
        #expect(try arrive("a", fixture.new) == .settled)
        let row = try #require(try journal.copyLink(fixture.row("b"), from: "a", fixture.new, .file()))
        #expect(try journal.moveToConflict(row, copy: "b (conflict)", remote: fixture.old) == nil)
        #expect(try fixture.paths().isEmpty && journal.conflicts().isEmpty)
        #expect(try journal.linkedName(at: "b") == nil)
    }

    @Test func aCancelledNameIsAsAtTheRemote() throws {
        try fixture.save("a")
        try link("a", "b")
        #expect(try journal.cancel(fixture.row("b").id))
        #expect(try fixture.paths() == ["a"] && journal.linkCount(at: "a") == 1)
    }

    @Test func whatIsOnItsWayToACancelledNameIsTakenAway() throws {
        try fixture.save("a")
        try link("a", "b")
        let transfer = try fixture.begin("a").id
        #expect(try journal.cancel(fixture.row("a").id))
        #expect(try fixture.paths() == ["a", "b"] && fixture.row("a").isTombstone)
        _ = try journal.completeTransfer(transfer, version: fixture.new)
        #expect(try fixture.row("a").base == .version(fixture.new))
        #expect(try journal.blockers(of: fixture.row("a")) == [.source(fixture.row("b").id)])
    }

    @Test func whatIsCancelledIsNotSentByAnotherName() throws {
        try linkRemote("a", "b")
        try journal.rename(from: "a", to: "c", sourceRemote: fixture.remoteFile, targetRemote: .absent)
        try fixture.save("a", "other")
        #expect(try journal.cancel(fixture.row("c").id))
        #expect(try fixture.paths() == ["a"] && journal.linkedName(at: "c") == nil)
        #expect(try journal.linkedName(at: "b")?.isFirst == true)
    }

    /// The other name stands where something else was, which it is to replace.
    @Test(arguments: [true, false]) func whatIsCancelledGoesOnOverSomethingElse(isMoved: Bool) throws {
        _ = try journal.remove(at: "b", remote: fixture.remoteFile)
        try fixture.save("a")
        try link("a", isMoved ? "t" : "b")
        if isMoved {
            try journal.rename(from: "t", to: "b", sourceRemote: .absent, targetRemote: fixture.remoteFile)
        }
        #expect(try journal.cancel(fixture.row("a").id))
        let row = try fixture.row("b")
        #expect(row.kind == .file && row.generation != nil && row.base == .version(fixture.old))
    }

    /// What has changed places with another file stands over that one's object.
    @Test func whatWasExchangedIsNotTakenForTheFile() throws {
        try linkRemote("a", "b")
        _ = try fixture.edit("a")
        #expect(try arrive("a", fixture.new) == .settled)
        let other = RemoteState.file(.tagged("y", 10), .file())
        let copy = RemoteState.file(.tagged("copied", 10), .file())
        try journal.exchange("b", "y", firstRemote: copy, secondRemote: other)
        try journal.noteForeign(nil, atFirst: "a", attributes: .file())
        let row = try fixture.row("y")
        #expect(row.kind == .hardLink && row.base == .version(.tagged("y", 10)))
        #expect(try journal.firstName(of: row) == .remote("a"))
    }

    @Test(arguments: ["a file", "one of two names", "a folder"])
    func whatIsMovedWhereOthersTookAFileAwayIsAnother(_ kind: String) throws {
        try link("a", "b", fixture.remoteFile)
        try journal.noteForeign(nil, atFirst: "a", attributes: .file())
        if kind == "a folder" {
            _ = try journal.createDirectory(at: "x", attributes: .directory(), remote: .absent)
            try journal.renameDirectory(from: "x", to: "a", sourceRemote: .absent, targetRemote: .absent, entries: [])
        } else {
            try fixture.save("x")
            if kind == "one of two names" { try link("x", "y") }
            try journal.rename(from: "x", to: "a", sourceRemote: .absent, targetRemote: .absent)
        }
        #expect(try journal.firstName(of: fixture.row("b")) == .unknown)
        #expect(try journal.linkCount(at: "a") == (kind == "one of two names" ? 2 : 1))
    }

    @Test(arguments: [true, false])
    func whatIsMadeWhereOthersTookAFileAwayIsAnother(isLater: Bool) throws {
        try link("a", "b", fixture.remoteFile)
        try journal.noteForeign(nil, atFirst: "a", attributes: .file())
        if isLater {
            _ = try journal.createFileLater(at: "a", attributes: .file())
        } else {
            try fixture.save("a")
        }
        #expect(try fixture.row("a").kind == .file && journal.linkedName(at: "a") == nil)
        #expect(try journal.firstName(of: fixture.row("b")) == .unknown)
    }

    @Test func powerLossTakesTheNamesOfANewFileAlong() throws {
        try fixture.save("a")
        try link("a", "b")
        try fixture.recover(boot: "two")
        #expect(try fixture.paths().isEmpty && journal.linkedName(at: "b") == nil)
        #expect(try fixture.quarantined().count == 1)
    }

    @Test func namesOutliveKillsAndSalvage() throws {
        try linkRemote("a", "b")
        try fixture.recover()
        #expect(try journal.hasLinks && journal.linked(at: "b")?.first == "a")
        try fixture.damage("PRAGMA wal_checkpoint(TRUNCATE); UPDATE node SET kind = 77")
        try fixture.save("x")
        try fixture.recover()
        #expect(try journal.linked(at: "b")?.first == "a")
    }

    @Test func theNumberOfAFileThatIsGoneIsNotGivenAgain() throws {
        try linkRemote("a", "b")
        let file = try #require(try journal.linkedName(at: "a")).file
        for name in ["a", "b"] as [ObjectKey] { try journal.remove(at: name, remote: fixture.remoteFile) }
        #expect(try journal.firstName(ofFile: file) == nil)
        try fixture.save("x")
        try link("x", "y")
        #expect(try journal.linkedName(at: "x")?.file != file && journal.firstName(ofFile: file) == nil)
    }

    @Test func thereIsABound() throws {
        try fixture.save("a")
        for number in 1..<LinkedName.limit { try link("a", ObjectKey("b\(number)")) }
        #expect(try journal.linkCount(at: "a") == LinkedName.limit)
        #expect { try link("a", "one more") } throws: { ($0 as? JournalError)?.kind == .constraint }
    }
}
