// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Journal
import Platform
import Testing

@testable import Flusher

/// What is remembered of changes that waited for readers.
@Suite final class ReaderMemoryTests {
    private let folder = "/tmp/moorage-readers-" + Randomness.hexadecimal(bytes: 6)
    private let key = ObjectKey("a")
    private let version = ObjectVersion(entityTag: EntityTag(opaque: "t"), size: 3)
    private let held: HeldVersions
    private let readers: OpenReaders
    private var hold: HeldVersions.Hold?

    init() throws {
        try #require(mkdir(folder, 0o700) == 0)
        held = HeldVersions(directory: folder)
        readers = OpenReaders(directory: folder, patience: ReaderWait.Patience())
        hold = held.hold(key, version)
    }

    deinit {
        try? Files.removeIfPresent(folder + "/held.lock")
        try? Files.removeDirectory(folder)
    }

    /// Whether a replacement is to wait.
    private func waits(at now: Double) -> Bool {
        readers.ask(key, version, isAwaited: false, at: now) { .replacement } != .go
    }

    @Test func whatWasDoneIsForgotten() {
        #expect(waits(at: 1000) && waits(at: 1599) && !waits(at: 1600))
        #expect(!waits(at: 1700), "an attempt may fail")
        readers.forget(key, .version(version))
        #expect(waits(at: 1701) && waits(at: 2300) && !waits(at: 2301))
    }

    @Test func whatWasGivenUpIsForgotten() {
        #expect(waits(at: 1000) && !waits(at: 1600) && !waits(at: 5000))
        #expect(waits(at: 8600), "nobody has asked for an hour")
    }

    @Test func onlyWhoWaitsNowIsKnownToWait() {
        #expect(!readers.areWaitedFor(key, version, at: 1000))
        #expect(waits(at: 1000) && readers.areWaitedFor(key, version, at: 1001))
        #expect(!readers.areWaitedFor(key, version, at: 1060), "something else holds it")
        #expect(!waits(at: 1600) && !readers.areWaitedFor(key, version, at: 1601))
        #expect(hold != nil)
        hold = nil
        #expect(!waits(at: 1700) && !readers.areWaitedFor(key, version, at: 1701))
    }
}
