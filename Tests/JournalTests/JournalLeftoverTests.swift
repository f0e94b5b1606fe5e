// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Journal
import Platform
import Testing

/// What may be left at the remote is known until it is found out.
@Suite struct JournalLeftoverTests {
    private let fixture: Fixture
    private var journal: Journal { fixture.journal }
    private let time = Timestamp(seconds: 1_700_000_000)

    init() throws { fixture = try Fixture() }

    @Test func aCreationThatIsAnsweredLeavesNothing() throws {
        try fixture.save("a")
        let transfer = try fixture.begin("a")
        try journal.beginCreation(of: transfer.id, at: time)
        let open = try #require(try journal.leftovers().first)
        #expect(open.key == "a" && open.transfer == transfer.id && open.beganAt == time && open.upload == nil)
        #expect(try journal.uploadNames().underWay == ["a"])
        try journal.setUpload(transfer.id, method: .multipart, upload: "u")
        #expect(try journal.leftovers().isEmpty)
        #expect(try journal.uploadNames() == (["u"], []))
    }

    @Test func aRefusedCreationLeavesNothing() throws {
        try fixture.save("a")
        let transfer = try fixture.begin("a")
        try journal.beginCreation(of: transfer.id, at: time)
        try journal.refuseCreation(of: transfer.id)
        #expect(try journal.leftovers().isEmpty)
    }

    @Test func everyCreationInDoubtIsKeptWhateverBecomesOfItsTransfer() throws {
        try fixture.save("a")
        let transfer = try fixture.begin("a")
        try journal.beginCreation(of: transfer.id, at: time)
        try journal.doubtCreation(of: transfer.id, at: time.advanced(bySeconds: 1))
        try journal.beginCreation(of: transfer.id, at: time.advanced(bySeconds: 2))
        // The answer to this one is never looked at; the next one tells that nobody waits any more.
        try journal.beginCreation(of: transfer.id, at: time.advanced(bySeconds: 3))
        try journal.removeTransfer(transfer.id)
        let left = try journal.leftovers()
        #expect(left.map(\.beganAt.seconds) == [0, 2, 3].map { time.seconds + $0 })
        #expect(left.map { $0.doubtedAt.map { $0.seconds - time.seconds } } == [1, 3, nil])
        #expect(left.allSatisfy { $0.transfer == nil && $0.upload == nil })
        for leftover in left { try journal.removeLeftover(leftover.id) }
        #expect(try journal.leftovers().isEmpty)
    }

    @Test func aNewFlusherDoubtsWhatTheOneBeforeWaitedFor() throws {
        try fixture.save("a")
        let transfer = try fixture.begin("a")
        try journal.beginCreation(of: transfer.id, at: time)
        try fixture.recover()
        try journal.doubtAllCreations()
        #expect(try journal.leftovers().map(\.transfer) == [nil])
        #expect(try journal.leftovers().map(\.doubtedAt) == [nil])
        #expect(try journal.uploadNames().underWay.isEmpty)
        // It asks again, and gets an answer: the doubt about the first stays.
        try journal.beginCreation(of: transfer.id, at: time)
        try journal.setUpload(transfer.id, method: .multipart, upload: "u")
        #expect(try journal.leftovers().count == 1)
    }
}
