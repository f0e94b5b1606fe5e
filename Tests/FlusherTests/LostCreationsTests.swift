// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Flusher
import ObjectStore
import Testing

/// Which uploads in progress are taken for our own lost ones.
@Suite struct LostCreationsTests {
    private func at(_ seconds: Int64) -> Timestamp { Timestamp(seconds: 1_000_000 + seconds) }

    private func upload(_ id: String, _ seconds: Int64, by initiator: String? = nil) -> UploadInProgress {
        UploadInProgress(uploadID: id, initiated: at(seconds), initiator: initiator)
    }

    private func lost(_ doubts: (began: Int64, doubted: Int64?)..., lateness: Double = 0) -> LostCreations {
        LostCreations(
            doubts.enumerated().map { index, doubt in
                .init(id: Int64(index + 1), began: at(doubt.began), doubted: doubt.doubted.map(at))
            },
            lateness: lateness
        )
    }

    @Test func whatIsCarriedOutUnusuallyLateIsGivenMoreTime() {
        let lost = lost((100, 103), lateness: 120)
        let listed = [upload("late", 200), upload("later", 224)]
        #expect(lost.candidates(listed, known: []).map(\.uploadID) == ["late"])
        #expect(lost.verdict([listed[0]], now: at(239)) == LostCreations.Verdict())
        #expect(lost.verdict([listed[0]], now: at(240)).aborts == [.init(upload: "late", doubt: 1)])
        #expect(lost.verdict([], now: at(103 + 169)).settled.isEmpty)
        #expect(lost.verdict([], now: at(103 + 170)).settled == [1])
    }

    @Test func onlyWhatWasBegunWhileWeAskedMayBeOurs() {
        let lost = lost((100, 103))
        let listed = (80...130).map { upload("u\($0)", $0) }
        #expect(lost.candidates(listed, known: []).map(\.uploadID) == (98...113).map { "u\($0)" })
        // A process that was killed asked for as long as a request may take.
        let killed = self.lost((100, nil)).candidates(listed, known: [])
        #expect(killed.map(\.uploadID) == (98...120).map { "u\($0)" })
    }

    @Test func whatAJournalKnowsOthersBeganOrHasNoTimeIsNotOurs() {
        let listed = [
            upload("mine", 101, by: "us"), upload("lost", 101, by: "us"), upload("theirs", 101, by: "them"),
            UploadInProgress(uploadID: "timeless", initiated: nil, initiator: "us"),
        ]
        #expect(lost((100, 103)).candidates(listed, known: ["mine"]).map(\.uploadID) == ["lost"])
        // Without one of ours in the list nobody tells who we are.
        let blind = lost((100, 103)).candidates(Array(listed.dropFirst()), known: ["mine"])
        #expect(blind.map(\.uploadID) == ["lost", "theirs"])
    }

    @Test func aSingleOneWithoutPartsIsAborted() {
        let verdict = lost((100, 103)).verdict([upload("u", 101)], now: at(110))
        #expect(verdict.aborts == [.init(upload: "u", doubt: 1)])
        #expect(verdict.settled.isEmpty && !verdict.isAmbiguous)
    }

    @Test func whatIsYoungIsLeftForTheNextLook() {
        let verdict = lost((100, 103)).verdict([upload("u", 107)], now: at(110))
        #expect(verdict == LostCreations.Verdict())
    }

    @Test func moreThanWereAskedForAreLeftAloneAndGivenUpInTheEnd() {
        let two = [upload("u", 101), upload("v", 102)]
        let early = lost((100, 103)).verdict(two, now: at(200))
        #expect(early.aborts.isEmpty && early.settled.isEmpty && early.isAmbiguous)
        let late = lost((100, 103)).verdict(two, now: at(103 + 900))
        #expect(late.aborts.isEmpty && late.settled == [1])
        let both = lost((100, 103), (104, 106)).verdict(two, now: at(200))
        #expect(both.aborts.map(\.upload) == ["u", "v"] && both.settled.isEmpty)
    }

    @Test func nothingFoundForAMinuteMeansThatNothingWasBegun() {
        #expect(lost((100, 103)).verdict([], now: at(162)).settled.isEmpty)
        #expect(lost((100, 103)).verdict([], now: at(163)).settled == [1])
        let mixed = lost((50, 53), (100, 103)).verdict([upload("u", 101)], now: at(163))
        #expect(mixed.aborts == [.init(upload: "u", doubt: 2)] && mixed.settled == [1])
    }

    @Test func looksGetRarerAndNeverStop() {
        let lost = lost((100, 103))
        #expect(lost.pause(now: at(103), last: nil) == 7)
        #expect(lost.pause(now: at(110), last: nil) == 0)
        #expect(lost.pause(now: at(110), last: at(110)) == 8)
        #expect(lost.pause(now: at(118), last: at(110)) == 0)
        #expect(lost.pause(now: at(200), last: at(200)) == 83)
        #expect(lost.pause(now: at(5000), last: nil) == 0)
        #expect(lost.pause(now: at(5000), last: at(5000)) == 60)
    }
}
