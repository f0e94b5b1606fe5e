// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Journal
import Testing

/// New attributes of a file with several names, whose first name changes while they are on their way.
///
/// The remote's tags are made of the bytes: the version says nothing of attributes.
extension JournalLinkTests {
    /// Changes the mode of `a`, which is `b` too, and what else is told, and begins to send it.
    private func changeMode(_ others: ObjectKey...) throws -> TransferID {
        for name in ["b"] + others { try linkRemote("a", name, as: fixture.old) }
        try journal.setAttributes(at: "a", remote: fixture.remoteFile, AttributeChanges(permissions: 0o755))
        return try fixture.begin("a", .copy).id
    }

    private func rename(_ source: ObjectKey, _ target: ObjectKey, _ targetRemote: RemoteState = .absent) throws {
        try journal.rename(
            from: source,
            to: target,
            sourceRemote: fixture.remoteFile,
            targetRemote: targetRemote
        )
    }

    /// Whether a name is about to become a copy of the first one again.
    private func isToBeCopied(_ name: ObjectKey, from first: ObjectKey) throws -> Bool {
        try journal.node(at: name)?.kind == .hardLink && journal.linked(at: name)?.first == first
    }

    @Test func attributesThatWereSentToTheOldNameReachTheOthers() throws {
        let transfer = try changeMode()
        try rename("a", "c")
        _ = try journal.completeTransfer(transfer, version: fixture.old)
        #expect(try arrive("c", fixture.old, .copy) == .settled)
        #expect(try isToBeCopied("b", from: "c"))
        #expect(try journal.blockers(of: fixture.row("b")).isEmpty)
    }

    @Test func attributesThatWereSentToARemovedNameReachTheOthers() throws {
        let transfer = try changeMode("c", "d")
        let heir = try #require(try journal.heir(of: "a"))
        try journal.remove(at: "a", remote: fixture.remoteFile)
        _ = try journal.completeTransfer(transfer, version: fixture.old)
        #expect(try arrive(heir, fixture.old, .copy) == .settled)
        for name in ["b", "c", "d"] as [ObjectKey] where name != heir {
            #expect(try isToBeCopied(name, from: heir))
        }
    }

    @Test func attributesReachTheOthersWhereTheFileIsOpenMeanwhile() throws {
        let transfer = try changeMode()
        try rename("a", "c")
        let node = try journal.beginWriting(at: "c", remote: .absent)
        _ = try journal.completeTransfer(transfer, version: fixture.old)
        let generation = try #require(try fixture.row("c").generation)
        try journal.seal(node.id, generation.id, content: generation.content, modified: nil)
        // Nothing was written, and by its old name it is what the remote has.
        try rename("c", "a", .file(fixture.old, .file(0o755)))
        #expect(try journal.node(at: "a") == nil)
        #expect(try isToBeCopied("b", from: "a"))
    }

    @Test func attributesReachTheOthersAlthoughTheMoveIsCancelled() throws {
        let transfer = try changeMode()
        try rename("a", "c")
        _ = try journal.completeTransfer(transfer, version: fixture.old)
        #expect(try journal.cancel(fixture.row("c").id))
        #expect(try fixture.paths() == ["b"] && isToBeCopied("b", from: "a"))
    }

    @Test(arguments: [true, false]) func whatArrivesAlthoughItWasCancelledReachesTheOthers(isMoved: Bool) throws {
        let transfer = try changeMode()
        if isMoved { try rename("a", "c") }
        #expect(try journal.cancel(fixture.row(isMoved ? "c" : "a").id))
        #expect(try fixture.paths().isEmpty)
        #expect(try journal.completeTransfer(transfer, version: fixture.old) == .unclaimed)
        #expect(try fixture.paths() == ["b"] && isToBeCopied("b", from: "a"))
    }

    @Test func whatMayHaveArrivedAlthoughItWasCancelledIsCopied() throws {
        let transfer = try changeMode()
        try journal.markCommitting(transfer, expectedTag: nil)
        #expect(try journal.cancel(fixture.row("a").id))
        try journal.removeTransfer(transfer)
        #expect(try fixture.paths() == ["b"] && isToBeCopied("b", from: "a"))
    }

    @Test func attributesOfAnEarlierAttemptReachTheOthersWhenTheNameStays() throws {
        try linkRemote("a", "b")
        try rename("a", "c")
        let transfer = try fixture.begin("c").id
        _ = try journal.completeTransfer(transfer, version: fixture.old, hasAttributes: false)
        #expect(try journal.cancel(fixture.row("c").id))
        #expect(try journal.node(at: "c") == nil && isToBeCopied("b", from: "c"))
    }

    @Test func whatOnlyMovesTwiceIsNoReasonToCopyAnew() throws {
        try linkRemote("a", "b")
        try rename("a", "c")
        let transfer = try fixture.begin("c", .copy).id
        try rename("c", "d")
        _ = try journal.completeTransfer(transfer, version: .tagged("moved", 10))
        #expect(try arrive("d", fixture.old, .copy) == .settled)
        #expect(try journal.node(at: "b") == nil)
    }

    /// Of a file with one name, too.
    @Test func whatLacksItsAttributesIsNotTakenForWhatIsWantedThere() throws {
        try rename("a", "c")
        let transfer = try fixture.begin("c").id
        try rename("c", "d")
        _ = try journal.completeTransfer(transfer, version: fixture.old, hasAttributes: false)
        try rename("d", "c", .file(fixture.old, .file(0o600)))
        #expect(try fixture.row("c").attributeSequence != 0)
    }
}
