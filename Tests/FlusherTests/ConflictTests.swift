// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Control
import Flusher
import Glibc
import Journal
import ObjectStore
import Synchronization
import Testing

@Suite(.serialized) struct ConflictTests {
    /// A flusher that has kept `[2, 2]` beside `[3, 3, 3]` at `a.txt`.
    private func withConflict(
        _ body: (FakeStore, FlusherFixture, ControlClient, ObjectKey) throws -> Void
    ) throws {
        let store = FakeStore()
        let base = store.foreign("a.txt", [1])
        let fixture = try FlusherFixture(store: store)
        defer { fixture.remove() }
        let client = try fixture.start()
        try fixture.write("a.txt", [2, 2], remote: .file(base, FlusherFixture.attributes))
        store.foreign("a.txt", [3, 3, 3])
        #expect(try fixture.flush(client).isEmpty)
        let copy = try #require(try fixture.journal.conflicts().first?.copy)
        try body(store, fixture, client, copy)
        try fixture.stop(client)
    }

    private struct Resolution: Equatable {
        var settled: Int
        var refused: [String]
        static let one = Resolution(settled: 1, refused: [])
    }

    private func resolve(
        _ keep: ConflictReport.Choice,
        _ client: ControlClient,
        _ paths: [String] = ["a.txt"]
    ) throws -> Resolution {
        let reply = try client.call(.resolve(keep: keep, selection: UploadSelection(paths: paths)))
        guard case .resolved(let conflicts, let refused) = reply else { throw ControlError.malformed("\(reply)") }
        return Resolution(settled: conflicts.count, refused: refused)
    }

    private func setOffline(_ store: FakeStore, _ isOffline: Bool) {
        store.state.withLock { $0.isOffline = isOffline }
    }

    private func conflicts(_ client: ControlClient) throws -> [ConflictReport] {
        let reply = try client.call(.conflicts(selection: UploadSelection()))
        guard case .conflicts(let conflicts) = reply else { throw ControlError.malformed("\(reply)") }
        return conflicts
    }

    @Test func aConflictIsListedAndSettledOneWayOrTheOther() throws {
        for keep in ConflictReport.Choice.allCases {
            try withConflict { store, fixture, client, copy in
                let listed = try #require(try conflicts(client).first)
                #expect(listed.path == "a.txt" && listed.copy == copy.string && listed.isUploaded)
                let path = keep == .theirs ? copy.string : "a.txt"
                #expect(try resolve(keep, client, [path]) == .one)
                #expect(try fixture.flush(client).isEmpty)
                switch keep {
                case .mine: #expect(store.holds([ObjectKey("a.txt"): [2, 2]]))
                case .theirs: #expect(store.holds([ObjectKey("a.txt"): [3, 3, 3]]))
                case .both: #expect(store.holds([ObjectKey("a.txt"): [3, 3, 3], copy: [2, 2]]))
                }
                #expect(try conflicts(client).isEmpty)
                #expect(try resolve(keep, client) == Resolution(settled: 0, refused: []))
            }
        }
    }

    @Test func aThirdVersionIsNotOverwrittenUnseen() throws {
        try withConflict { store, fixture, client, copy in
            store.foreign("a.txt", [4])
            #expect(try resolve(.mine, client) == .one)
            #expect(try fixture.flush(client).isEmpty)
            #expect(store.holds(ObjectKey("a.txt"), [4]))
            let again = try #require(try conflicts(client).first)
            #expect(store.holds(ObjectKey(again.copy), [2, 2]) && store.objects.count == 2)
            // Now it was met, and who says so again means it.
            #expect(try resolve(.mine, client) == .one)
            #expect(try fixture.flush(client).isEmpty)
            #expect(store.holds([ObjectKey("a.txt"): [2, 2]]))
        }
    }

    @Test func ofSeveralCopiesOneHasToBeNamed() throws {
        try withConflict { store, fixture, client, copy in
            let version = try #require(store.objects[ObjectKey("a.txt")]?.version)
            try fixture.write("a.txt", [5], remote: .file(version, FlusherFixture.attributes))
            store.foreign("a.txt", [6])
            #expect(try fixture.flush(client).isEmpty)
            let result = try resolve(.mine, client)
            #expect(result.settled == 0 && result.refused.count == 1 && result.refused[0].contains(copy.string))
            #expect(try resolve(.theirs, client, [copy.string]) == .one)
            #expect(try resolve(.mine, client) == .one)
            #expect(try fixture.flush(client).isEmpty)
            #expect(store.holds([ObjectKey("a.txt"): [5]]))
        }
    }

    @Test func withoutTheRemoteADecisionIsCarriedOutLater() throws {
        try withConflict { store, fixture, client, _ in
            setOffline(store, true)
            #expect(try resolve(.mine, client) == .one)
            let row = try fixture.journal.node(at: ObjectKey("a.txt"))
            #expect(row != nil)
            setOffline(store, false)
            #expect(try fixture.flush(client).isEmpty)
            #expect(store.holds([ObjectKey("a.txt"): [2, 2]]))
        }
    }

    /// By bytes, as listings are; what stands between has the same beginning and one of `!` to `-` behind it.
    @Test func copiesSortBesideTheirOriginals() throws {
        let time = Timestamp(seconds: 1_763_619_342)
        for name in ["notes.txt", "notes", ".profile", "a.tar.gz", "name with space.md", "naïve.txt"] {
            let copy = ConflictName.path(for: ObjectKey(name), at: time, host: "host")
            let others = ["A", "aa", "m.txt", "nota.txt", "notes2.txt", "notesA", "zz", ".zz", "naïvf.txt"].map {
                ObjectKey($0)
            }
            let sorted = (others + [ObjectKey(name), copy]).sorted()
            let places = try [ObjectKey(name), copy].map { try #require(sorted.firstIndex(of: $0)) }
            #expect(abs(places[0] - places[1]) == 1, "\(sorted)")
        }
    }
}
