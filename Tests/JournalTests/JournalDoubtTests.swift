// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Journal
import Platform
import Testing

/// Requests that were sent and not answered, once they can be carried out no more.
@Suite struct JournalDoubtTests {
    private let fixture: Fixture
    private var journal: Journal { fixture.journal }

    init() throws { fixture = try Fixture() }

    @Test func endedDeletionsAreForgottenThoughTheNameIsStillToGo() throws {
        try journal.remove(at: "a", remote: fixture.remoteFile)
        let row = try fixture.row("a")
        let now = Timestamp.now()
        let deletion = try #require(try journal.noteRequest(for: row, "a", .deletion))
        let write = try #require(try journal.noteRequest(for: row, "a", .write))
        for request in [deletion, write] { try journal.doubt(request, until: now) }
        try journal.forgetDoubts(endedBefore: now.advanced(bySeconds: 1))
        #expect(try journal.doubts(at: "a").map(\.id) == [write])
    }

    /// What it is to send may find that the request was carried out, however much later.
    @Test func aWriteIsKnownAsLongAsItsFileHasARow() throws {
        let (node, content) = try fixture.write("a")
        let now = Timestamp.now()
        for kind in [DoubtKind.write, .deletion] {
            try journal.doubt(try #require(try journal.noteRequest(for: node, "a", kind)), until: now)
        }
        let later = now.advanced(bySeconds: 1)
        try journal.forgetDoubts(endedBefore: later)
        #expect(try journal.doubts(at: "a").map(\.kind) == [.write])
        try journal.seal(node.id, try #require(node.generation).id, content: content, modified: nil)
        _ = try journal.completeTransfer(try fixture.begin("a").id, version: fixture.new)
        try journal.forgetDoubts(endedBefore: later)
        #expect(try journal.doubts(at: "a").isEmpty)
    }

    /// Once something newer was made there, it is gone, if it was carried out at all.
    @Test func whatWasReplacedIsForgottenThoughItsFileHasARow() throws {
        try fixture.save("a")
        let transfer = try fixture.begin("a")
        let now = Timestamp.now()
        try journal.doubt(transfer, tag: "older", until: now)
        let node = try journal.beginWriting(at: "a", remote: .absent)
        _ = try journal.completeTransfer(transfer.id, version: fixture.new)
        let known = try journal.doubts(at: "a")
        #expect(known.map(\.size) == [transfer.size] && known.map(\.isReplaced) == [true])
        // As long as it may be carried out it is known all the same.
        try journal.forgetDoubts(endedBefore: now.advanced(bySeconds: -1))
        #expect(try journal.doubts(at: "a").count == 1)
        try journal.forgetDoubts(endedBefore: now.advanced(bySeconds: 1))
        #expect(try journal.doubts(at: "a").isEmpty && journal.node(node.id) != nil)
    }

    /// It was to make the first object there, and may do so after the newer one was taken away.
    @Test func aRemovalBringsBackWhatWasReplaced() throws {
        try fixture.save("a")
        let transfer = try fixture.begin("a")
        let now = Timestamp.now()
        try journal.doubt(transfer, tag: "older", until: now)
        _ = try journal.completeTransfer(transfer.id, version: fixture.new)
        try journal.remove(at: "a", remote: .file(fixture.new, .file()))
        try journal.completeObjectRemoval(at: "a")
        _ = try fixture.write("a")
        try journal.forgetDoubts(endedBefore: now.advanced(bySeconds: 1))
        let known = try journal.doubts(at: "a")
        #expect(known.map(\.size) == [transfer.size] && known.map(\.isReplaced) == [false])
    }

    @Test func notMoreThanSomeAreKnown() throws {
        let (node, _) = try fixture.write("a")
        let now = Timestamp.now()
        var requests: [DoubtID] = []
        for _ in 0..<20 { requests.append(try #require(try journal.noteRequest(for: node, "a", .write))) }
        for request in requests { try journal.doubt(request, until: now) }
        try journal.forgetDoubts(endedBefore: now.advanced(bySeconds: 1))
        #expect(try journal.doubts(at: "a").map(\.id) == Array(requests.suffix(16)))
    }

    @Test func thoseOfAFolderAreForgotten() throws {
        let folder = try journal.createDirectory(at: "d", attributes: .directory(), remote: .absent)
        let now = Timestamp.now()
        for key: ObjectKey in ["d", "d/"] {
            try journal.doubt(try #require(try journal.noteRequest(for: folder, key, .write)), until: now)
        }
        try journal.forgetDoubts(endedBefore: now.advanced(bySeconds: 1))
        #expect(try journal.doubts(at: "d").isEmpty)
    }
}
