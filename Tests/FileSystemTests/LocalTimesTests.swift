// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Testing

@testable import FileSystem

@Suite struct LocalTimesTests {
    private let stored = Timestamp(seconds: 1000)
    private let now = Timestamp(seconds: 2000)

    @Test func whatIsNotKnownIsTheTimeOfModification() {
        let times = LocalTimes()
        #expect(times.modified(stored) == stored)
        #expect(times.changed(stored) == stored)
        #expect(times.accessed(stored) == stored)
    }

    @Test func aChangeOfStatusShowsUntilTheContentIsWrittenAgain() {
        var times = LocalTimes()
        times.noteStatus(at: now, modified: stored)
        #expect(times.changed(stored) == now)
        #expect(times.modified(stored) == stored)
        let written = Timestamp(seconds: 3000)
        #expect(times.changed(written) == written)
    }

    @Test func aTimeSetToTheFutureIsNotTheTimeOfItsSetting() {
        var times = LocalTimes()
        let future = Timestamp(seconds: 9000)
        times.noteStatus(at: now, modified: future, isExplicit: true)
        #expect(times.changed(future) == now)
    }

    @Test func namesOfAFolderChangeItsTimesUntilOneIsSet() {
        var times = LocalTimes()
        times.noteNames(at: now)
        #expect(times.modified(stored) == now)
        #expect(times.changed(stored) == now)
        let later = Timestamp(seconds: 3000)
        times.noteStatus(at: later, modified: stored)
        #expect(times.modified(stored) == now)
        #expect(times.changed(stored) == later)
        times.noteStatus(at: later, modified: stored, isExplicit: true)
        #expect(times.modified(stored) == stored)
    }

    @Test func aChangeOfContentLeavesTheTimeOfAccess() {
        var times = LocalTimes()
        times.keepAccessed(modified: stored)
        #expect(times.accessed(now) == stored)
        times.keepAccessed(modified: now)
        #expect(times.accessed(Timestamp(seconds: 3000)) == stored)
    }

    /// relatime of mount(8).
    @Test func readsShowOnceAfterEachChangeAndOnceADay() {
        var times = LocalTimes()
        times.noteRead(at: now, modified: stored)
        #expect(times.accessed(stored) == now)
        times.noteRead(at: Timestamp(seconds: 2001), modified: stored)
        #expect(times.accessed(stored) == now)
        let day = Timestamp(seconds: 2000 + 86_400)
        times.noteRead(at: day, modified: stored)
        #expect(times.accessed(stored) == day)
        let written = Timestamp(seconds: 2000 + 90_000)
        times.noteRead(at: Timestamp(seconds: 2000 + 90_001), modified: written)
        #expect(times.accessed(written) == Timestamp(seconds: 2000 + 90_001))
        times.setAccessed(Timestamp(seconds: 5))
        #expect(times.accessed(written) == Timestamp(seconds: 5))
    }
}
