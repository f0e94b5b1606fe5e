// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Journal
import Testing

/// A file with several names, whose first one stands over another file's object, is given up there.
extension JournalLinkTests {
    private var other: ObjectVersion { .tagged("y", 10) }
    private var otherFile: RemoteState { .file(other, .file()) }

    /// Moves `a` over `y`, which the remote has.
    private func moveOver() throws {
        try journal.rename(from: "a", to: "y", sourceRemote: fixture.remoteFile, targetRemote: otherFile)
    }

    /// Gives a file wholly other content, which is synced.
    @discardableResult
    private func rewrite(
        _ path: ObjectKey,
        _ version: ObjectVersion? = nil,
        syncing: Bool = true
    ) throws -> GenerationID {
        let node = try journal.beginWriting(at: path, remote: .file(version ?? fixture.old, .file()))
        let generation = try #require(node.generation)
        var content = generation.content
        content.truncate(to: 0)
        _ = try fixture.put(node, "other")
        content.write(ByteRange(offset: 0, count: 5))
        try journal.seal(node.id, generation.id, content: content, modified: nil)
        if syncing { try fixture.synchronize() }
        return generation.id
    }

    /// Cancels `y`, and looks at it.
    private func cancelOther() throws {
        #expect(try journal.cancel(fixture.row("y").id))
        try journal.noteForeign(other, atFirst: "y", attributes: .file())
        #expect(try journal.node(at: "y") == nil && journal.linkedName(at: "y") == nil)
    }

    @Test(arguments: ["moved", "rewritten", "exchanged", "linked"])
    func aFileIsNotTheObjectThatItWasToReplace(_ how: String) throws {
        try linkRemote("a", "c")
        switch how {
        case "moved":
            try moveOver()
            try fixture.save("a", "new")
        case "rewritten":
            try moveOver()
            try rewrite("y")
        case "linked":
            try moveOver()
            try rewrite("y")
            try link("y", "z", otherFile)
        default:
            try journal.exchange("a", "y", firstRemote: fixture.remoteFile, secondRemote: otherFile)
            try rewrite("y")
        }
        try cancelOther()
        #expect(try journal.linkedName(at: "c")?.isFirst == true && journal.node(at: "c") == nil)
        #expect(try fixture.row("a").base == .version(fixture.old), "as it was")
        if how == "linked" {
            #expect(try journal.linked(at: "z")?.first == "c" && fixture.row("z").kind == .hardLink, "and by this name")
        }
    }

    /// Its other name is one of which the remote has no copy, but an object that is to be replaced, or nothing.
    @Test(arguments: [true, false]) func whatIsNowhereElseGoesOnByTheOtherName(isBegun: Bool) throws {
        try link("a", "c", fixture.remoteFile)
        try moveOver()
        try rewrite("y")
        let transfer = isBegun ? try fixture.begin("y") : nil
        let generation = try fixture.row("y").generation?.id
        try cancelOther()
        let row = try fixture.row("c")
        #expect(row.kind == .file && row.base == .absent && row.generation?.id == generation)
        #expect(try journal.linkedName(at: "c")?.isFirst == true)
        // What is on its way to the other object is not brought to its end there.
        let left = try journal.transfers()
        #expect(left.map(\.transfer.id) == [transfer?.id].compactMap(\.self) && left.allSatisfy { $0.fate == .gone })
    }

    /// The other name is one that it got when it was to replace the object already.
    @Test func aNewFileGoesOnByTheOtherName() throws {
        _ = try fixture.save("new")
        try journal.rename(from: "new", to: "y", sourceRemote: .absent, targetRemote: otherFile)
        try link("y", "z", otherFile)
        let generation = try fixture.row("y").generation?.id
        try cancelOther()
        let row = try fixture.row("z")
        #expect(row.kind == .file && row.base == .absent && row.generation?.id == generation)
    }

    @Test func aNewSymbolicLinkGoesOnByTheOtherName() throws {
        _ = try journal.createSymbolicLink(at: "new", target: "t", attributes: .link, remote: .absent)
        try journal.rename(from: "new", to: "y", sourceRemote: .absent, targetRemote: otherFile)
        _ = try journal.link("y", to: "z", attributes: .link, sourceRemote: otherFile, targetRemote: .absent)
        try cancelOther()
        let row = try fixture.row("z")
        #expect(row.kind == .symbolicLink && row.base == .absent && row.target == "t")
    }

    /// The other name has a copy, but of what the file was before its last upload.
    @Test func anOlderCopyIsNotTheFile() throws {
        try linkRemote("a", "b")
        _ = try fixture.edit("a")
        #expect(try arrive("a", fixture.new) == .settled)
        #expect(try fixture.row("b").kind == .hardLink)
        try journal.rename(
            from: "a",
            to: "y",
            sourceRemote: .file(fixture.new, .file()),
            targetRemote: otherFile
        )
        try rewrite("y")
        let generation = try fixture.row("y").generation?.id
        try cancelOther()
        let row = try fixture.row("b")
        #expect(row.kind == .file && row.base != .absent && row.generation?.id == generation)
    }

    /// The file went on by a name that has an older copy: that is not what it was when it was written anew there.
    @Test func theOlderCopyOfAnHeirIsNotTheFile() throws {
        try linkRemote("a", "b")
        _ = try fixture.edit("a")
        #expect(try arrive("a", fixture.new) == .settled)
        try link("a", "d", .file(fixture.new, .file()))
        try journal.remove(at: "a", remote: .file(fixture.new, .file()))
        try rewrite("b")
        let generation = try fixture.row("b").generation?.id
        #expect(try journal.cancel(fixture.row("b").id))
        let row = try fixture.row("d")
        #expect(row.kind == .file && row.generation?.id == generation)
        #expect(try journal.linkedName(at: "b") == nil)
    }

    /// It went on by a name that has the same: cancelled there, it is that by all names.
    @Test func anEditIsUndoneByTheCopyOfAnHeir() throws {
        try linkRemote("a", "b")
        try link("a", "d", fixture.remoteFile)
        try rewrite("a")
        try journal.remove(at: "a", remote: fixture.remoteFile)
        #expect(try journal.cancel(fixture.row("b").id))
        #expect(try journal.node(at: "b") == nil && journal.linkedName(at: "b")?.isFirst == true)
        #expect(try journal.linked(at: "d")?.first == "b" && fixture.row("d").kind == .hardLink)
    }

    @Test func whatIsLeftOfACancelledFileCanHaveNames() throws {
        try fixture.save("x")
        try journal.rename(from: "x", to: "y", sourceRemote: .absent, targetRemote: otherFile)
        try link("y", "z")
        for name in ["z", "y"] as [ObjectKey] { #expect(try journal.cancel(fixture.row(name).id)) }
        try link("y", "e", otherFile)
        try fixture.recover()
        #expect(try journal.linked(at: "e")?.first == "y")
    }

    @Test func newAttributesOfASymbolicLinkAreUndoneForAllNames() throws {
        let remote = RemoteState.file(fixture.old, .link, target: "t")
        try journal.setAttributes(at: "s", remote: remote, AttributeChanges(uid: 7))
        _ = try journal.link("s", to: "s2", attributes: .link, sourceRemote: remote, targetRemote: .absent)
        #expect(try journal.cancel(fixture.row("s").id))
        #expect(try journal.linked(at: "s2")?.first == "s")
    }

    /// The first name was given to one that had changed places with another file: what the remote has there is for its row to say.
    @Test func anHeirIsNotTheObjectThatItChangedPlacesWith() throws {
        try linkRemote("a", "b")
        try link("a", "c", fixture.remoteFile)
        let copy = try #require(try journal.copyLink(fixture.row("c"), from: "a", fixture.old, .file()))
        #expect(try arrive("c", .tagged("copied", 10), .copy) == .settled && copy.path == "c")
        _ = try fixture.edit("a")
        #expect(try arrive("a", fixture.new) == .settled)
        _ = try journal.copyLink(fixture.row("b"), from: "a", fixture.new, .file())
        #expect(try arrive("b", fixture.new, .copy) == .settled)
        try journal.exchange("b", "y", firstRemote: .file(fixture.new, .file()), secondRemote: otherFile)
        try rewrite("a", fixture.new)
        #expect(try journal.heir(of: "a") == "y")
        try journal.remove(at: "a", remote: .file(fixture.new, .file()))
        let generation = try fixture.row("y").generation?.id
        try cancelOther()
        #expect(try journal.linkedName(at: "c")?.isFirst == true && fixture.row("c").generation?.id == generation)
    }

    /// What others make of the file while only its attributes change here is the file's new content.
    @Test func whatOthersMadeOfTheFileIsTheFileWhenItsAttributesAreCancelled() throws {
        try linkRemote("a", "b")
        try journal.setAttributes(at: "a", remote: fixture.remoteFile, AttributeChanges(permissions: 0o600))
        _ = try journal.rebase(fixture.row("a"), onto: .version(fixture.new))
        #expect(try journal.cancel(fixture.row("a").id))
        #expect(try journal.linked(at: "b")?.first == "a")
        #expect(try fixture.row("b").attributes.mode == 0, "not those that were given up")
        try journal.noteForeign(fixture.new, atFirst: "a", attributes: .file())
        #expect(try fixture.row("b").kind == .hardLink)
    }

    /// Also where the other name has no copy yet.
    @Test(arguments: [true, false]) func anEditThatIsCancelledLeavesTheNames(hasCopy: Bool) throws {
        if hasCopy { try linkRemote("a", "b") } else { try link("a", "b", fixture.remoteFile) }
        try rewrite("a")
        #expect(try journal.cancel(fixture.row("a").id))
        #expect(try journal.linked(at: "b")?.first == "a" && fixture.paths() == (hasCopy ? [] : ["b"]))
    }

    /// The other name never was one of what the remote has; of an edit in place it is.
    @Test(arguments: [true, false], [true, false])
    func whatWasWrittenAnewBeforeAnotherNameWasGivenStaysByThat(isAnew: Bool, isSynced: Bool) throws {
        let written = isAnew ? try rewrite("a", syncing: isSynced) : try fixture.edit("a").generation?.id
        if isSynced { try fixture.synchronize() }
        try link("a", "b", fixture.remoteFile)
        #expect(try journal.cancel(fixture.row("a").id))
        try journal.noteForeign(fixture.old, atFirst: "a", attributes: .file())
        #expect(try journal.linked(at: "b")?.first == (isAnew ? nil : "a"))
        #expect(try (fixture.row("b").generation?.id == written) == isAnew)
    }

    /// As is a file that takes the place of one that was removed: that removal is a change of its own.
    @Test(arguments: [true, false], [true, false])
    func whatWasWrittenAnewAndMovedIsNoLongerWhatItWas(isAnew: Bool, isSynced: Bool) throws {
        if isAnew { try rewrite("a", syncing: isSynced) } else { try fixture.edit("a") }
        if isSynced { try fixture.synchronize() }
        try journal.rename(from: "a", to: "b", sourceRemote: fixture.remoteFile, targetRemote: .absent)
        #expect(try journal.cancel(fixture.row("b").id))
        #expect(try fixture.paths() == (isAnew ? ["a"] : []))
        guard isAnew else { return }
        #expect(try journal.cancel(fixture.row("a").id))
        #expect(try fixture.paths().isEmpty)
    }
}

/// What is left of a file with several names in a damaged journal, and by what name it goes on.
extension JournalLinkTests {
    /// A name that changed places with another file stands over that one's object: without its row nothing tells so.
    @Test func aNameWhoseRowIsLostIsNotTheObjectOfAnother() throws {
        try linkRemote("a", "b")
        let copy = RemoteState.file(.tagged("copied", 10), .file())
        try journal.exchange("b", "y", firstRemote: copy, secondRemote: otherFile)
        #expect(try journal.linked(at: "y")?.first == "a")
        try fixture.damage("UPDATE node SET kind = 77")
        try fixture.recover()
        #expect(try journal.node(at: "y") == nil && journal.linkedName(at: "y") == nil)
    }

    /// A first name had been moved over another file, which nothing tells any more: its other names keep what they have.
    @Test func aDamagedJournalHasNoObjectCopiedOverOtherNames() throws {
        try linkRemote("a", "c")
        try moveOver()
        try fixture.damage("UPDATE node SET kind = 77")
        try fixture.recover()
        try journal.noteForeign(other, atFirst: "y", attributes: .file())
        #expect(try journal.node(at: "c") == nil && journal.linkedName(at: "c") == nil)
    }

    /// A new file whose bytes are lost was to replace another one, of which its other name is no name.
    @Test func aFirstNameWhoseBytesAreLostIsNotTheObjectOfAnother() throws {
        try fixture.save("a")
        try journal.rename(from: "a", to: "y", sourceRemote: .absent, targetRemote: otherFile)
        try link("y", "z")
        try fixture.recover(boot: "two")
        #expect(try fixture.paths().isEmpty && journal.linkedName(at: "z") == nil)
    }

    /// Others took the first name away; the copy that was moved, and is still to be sent by its new name, is the file then.
    @Test func aCopyOfASymbolicLinkThatIsMovedIsTheHeir() throws {
        let (text, attributes) = (ObjectVersion.tagged("text", 1), FileAttributes.link)
        let remote = RemoteState.file(text, attributes, target: "t")
        let names: [ObjectKey] = ["s2", "m"]
        for name in names {
            _ = try journal.link("s", to: name, attributes: .link, sourceRemote: remote, targetRemote: .absent)
            guard name == "s2" else { continue }
            #expect(try journal.copyLink(fixture.row(name), from: "s", text, .link) != nil)
            #expect(try arrive(name, text, .copy) == .settled)
            try journal.rename(from: name, to: "z", sourceRemote: remote, targetRemote: .absent)
        }
        #expect(try fixture.row("z").kind == .symbolicLink && journal.heir(of: "s") == "z")
        try journal.noteForeign(nil, atFirst: "s", attributes: .link)
        #expect(try journal.linked(at: "z") == nil && journal.linkedName(at: "z")?.isFirst == true)
    }
}
