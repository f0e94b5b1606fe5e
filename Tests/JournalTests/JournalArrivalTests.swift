// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Journal
import Testing

/// What object a content that was sent has become: the catalog, which knows it too, may be lost.
@Suite struct JournalArrivalTests {
    private let fixture: Fixture
    private var journal: Journal { fixture.journal }

    init() throws { fixture = try Fixture() }

    private func send(_ path: ObjectKey) throws -> GenerationID {
        try fixture.save(path)
        let transfer = try fixture.begin(path)
        _ = try journal.completeTransfer(transfer.id, version: fixture.new)
        return try #require(transfer.generation)
    }

    /// Moves the object `a` to `b`.
    private func move() throws {
        let source = RemoteState.file(fixture.new, .file())
        _ = try journal.rename(from: "a", to: "b", sourceRemote: source, targetRemote: .absent)
    }

    @Test func theObjectOfAContentIsKnownBeforeAndAfterItsFileIsGone() throws {
        #expect(try journal.arrival(of: GenerationID(1)) == nil)
        let generation = try send("a")
        #expect(try journal.arrival(of: generation)?.key == "a")
        #expect(try journal.releaseGenerations().map(\.id) == [generation])
        let arrival = try #require(try journal.arrival(of: generation))
        #expect(arrival.key == "a" && arrival.version == fixture.new)
        #expect(try journal.releaseGenerations().isEmpty, "what is only known is not looked at again")
    }

    @Test func aContentThatIsNotSentHasNone() throws {
        let generation = try #require(try fixture.write("b").0.generation)
        #expect(try journal.arrival(of: generation.id) == nil)
    }

    @Test func aCopyTakesThePlaceOfItsSource() throws {
        let generation = try send("a")
        _ = try journal.releaseGenerations()
        try move()
        let transfer = try fixture.begin("b")
        _ = try journal.completeTransfer(transfer.id, version: .tagged("copy", fixture.new.size))
        let arrival = try #require(try journal.arrival(of: generation))
        #expect(arrival.key == "b" && arrival.version.entityTag?.opaque == "copy")
    }

    /// As where two names are exchanged, and wait for each other.
    @Test(arguments: [true, false], [true, false])
    func aCopyThatIsSentAsAWholeTakesItToo(isEmpty: Bool, isReleased: Bool) throws {
        try fixture.save("a", isEmpty ? "" : "text")
        let first = try fixture.begin("a")
        let generation = try #require(first.generation)
        _ = try journal.rename(from: "a", to: "b", sourceRemote: .absent, targetRemote: .absent)
        let sent = ObjectVersion.tagged("sent", first.size)
        _ = try journal.completeTransfer(first.id, version: sent)
        if isReleased { _ = try journal.releaseGenerations() }
        let second = try fixture.begin("b")
        let copy = try #require(second.generation)
        #expect(copy != generation)
        try journal.hydrated(copy, isEmpty ? [] : [ByteRange(0, second.size)])
        _ = try journal.completeTransfer(second.id, version: .tagged("copy", first.size))
        let arrival = try #require(try journal.arrival(of: generation))
        #expect(arrival.key == "b" && arrival.version.entityTag?.opaque == "copy")
    }

    @Test func whatIsWrittenToSinceIsNoCopy() throws {
        let generation = try send("a")
        try move()
        let transfer = try fixture.begin("b")
        let copy = try #require(transfer.generation)
        try journal.hydrated(copy, [ByteRange(0, transfer.size)])
        try journal.removeTransfer(transfer.id)
        let node = try journal.beginWriting(at: "b", remote: .absent)
        #expect(node.generation?.id == copy)
        _ = try journal.seal(node.id, copy, content: ContentMap(size: 1), modified: nil)
        let again = try fixture.begin("b")
        _ = try journal.completeTransfer(again.id, version: .tagged("other", 1))
        #expect(try journal.arrival(of: generation)?.key == "a")
    }

    @Test func onlyTheNewestAreKnown() throws {
        let first = try send("a")
        _ = try journal.releaseGenerations()
        try fixture.damage("UPDATE sqlite_sequence SET seq = 5000 WHERE name = 'generation'")
        let last = try send("b")
        _ = try journal.releaseGenerations()
        #expect(try journal.arrival(of: first) == nil)
        #expect(try journal.arrival(of: last)?.key == "b")
    }

    @Test func theNextMountForgetsThem() throws {
        let generation = try send("a")
        _ = try journal.releaseGenerations()
        try fixture.recover()
        #expect(try journal.arrival(of: generation) == nil)
    }
}
