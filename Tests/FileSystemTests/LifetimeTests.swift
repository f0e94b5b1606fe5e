// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Testing

@testable import FileSystem

/// How long the kernel may keep names, which is a second here at most.
@Suite struct LifetimeTests {
    private func lifetime(metadataAge: Double, _ prepare: (Volume) throws -> Void = { _ in }) throws -> Double {
        let volume = try Volume(metadataAge: metadataAge)
        volume.store.set("a", [1])
        try prepare(volume)
        return volume.files.lifetime(in: Volume.root)
    }

    @Test func itEndsWithTheListing() throws {
        let lifetime = try lifetime(metadataAge: 0.5) { volume in _ = try volume.names("") }
        #expect(lifetime > 0 && lifetime <= 0.5)
        #expect(try self.lifetime(metadataAge: 1000) { volume in _ = try volume.names("") } == 1)
    }

    @Test func namesThatWereAskedForAloneAgeFromNowOn() throws {
        #expect(try lifetime(metadataAge: 0.5) == 0.5)
    }

    @Test func whereNothingIsBelievedItIsAsLongAsItMayBe() throws {
        #expect(try lifetime(metadataAge: 0) { volume in _ = try volume.names("") } == 1)
    }

    @Test func whereTheRemoteHasNothingNothingAges() throws {
        let volume = try Volume(metadataAge: 0.5)
        try volume.makeFolder("new")
        #expect(volume.files.lifetime(in: try volume.number("new")) == 1)
    }
}
