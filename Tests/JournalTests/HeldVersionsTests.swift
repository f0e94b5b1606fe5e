// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Journal
import Platform
import Testing

@Suite struct HeldVersionsTests {
    private let key = ObjectKey("a/b")

    private func version(_ tag: String?, size: Int64 = 3, modified: Int64? = nil) -> ObjectVersion {
        ObjectVersion(
            entityTag: tag.map { EntityTag(opaque: $0) },
            size: size,
            lastModified: modified.map { Timestamp(seconds: $0) }
        )
    }

    private func inFolder(_ body: (String) throws -> Void) throws {
        let folder = "/tmp/moorage-held-\(getpid())-\(Randomness.hexadecimal(bytes: 6))"
        try Files.makeDirectories(folder)
        defer {
            _ = unlink(folder + "/held.lock")
            _ = rmdir(folder)
        }
        try body(folder)
    }

    @Test func aVersionIsHeldUntilItsLastHoldGoes() throws {
        try inFolder { (folder) throws in
            let held = HeldVersions(directory: folder)
            #expect(try FileStatus.of(folder + "/held.lock") == nil, "nothing is held yet")
            var holds = [held.hold(key, version("t")), held.hold(key, version("t"))]
            #expect(!holds.contains { $0 == nil })
            #expect(try HeldVersions.isHeld(key, version("t"), in: folder))
            #expect(try !HeldVersions.isHeld(key, version("u"), in: folder))
            #expect(try !HeldVersions.isHeld("a/c", version("t"), in: folder))
            holds.removeLast()
            #expect(try HeldVersions.isHeld(key, version("t"), in: folder))
            holds = []
            #expect(try !HeldVersions.isHeld(key, version("t"), in: folder))
        }
    }

    @Test func theSameVersionHasTheSamePlace() {
        // A listing and an answer to a request tell different times of one version.
        let place = HeldVersions.place(of: key, version("t", modified: 5))
        #expect(place == HeldVersions.place(of: key, version("t", modified: 6)))
        #expect(place != HeldVersions.place(of: key, version("t", size: 4)))
        let untagged = HeldVersions.place(of: key, version(nil, modified: 5))
        #expect(untagged == HeldVersions.place(of: key, version(nil, modified: 5)))
        #expect(untagged != HeldVersions.place(of: key, version(nil, modified: 6)))
        for number in 0..<1000 {
            #expect(ByteLocks.places.contains(HeldVersions.place(of: ObjectKey("\(number)"), version("t"))))
        }
    }

    @Test func noMoreAreHeldThanTheKernelIsToGoThrough() throws {
        try inFolder { (folder) throws in
            let held = HeldVersions(directory: folder)
            var holds = (0..<HeldVersions.limit).map { held.hold(ObjectKey("\($0)"), version("t")) }
            #expect(!holds.contains { $0 == nil })
            #expect(held.hold(key, version("t")) == nil)
            #expect(held.hold("7", version("t")) != nil, "it is held already")
            holds.removeLast()
            #expect(held.hold(key, version("t")) != nil)
        }
    }

    @Test func whatCannotBeHeldIsNoError() throws {
        try inFolder { (folder) throws in
            try #require(symlink("/dev/null", folder + "/held.lock") == 0)
            #expect(HeldVersions(directory: folder).hold(key, version("t")) == nil)
            #expect(throws: SystemError.self) { try HeldVersions.isHeld(key, version("t"), in: folder) }
        }
    }
}
