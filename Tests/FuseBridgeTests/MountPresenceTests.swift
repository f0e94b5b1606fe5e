// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Testing

@testable import FuseBridge

@Suite struct MountPresenceTests {
    private let table = """
        21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
        90 21 0:57 / /mnt/my\\040bucket rw,nosuid - fuse.moorage moorage#s3://data rw
        91 21 0:58 / /mnt/other rw,nosuid - fuse.moorage moorage#s3://other rw

        """

    @Test func aMountIsFoundByItsEscapedPath() throws {
        let presence = try #require(MountPresence(mountpoint: "/mnt/my bucket", table: table))
        #expect(presence.isPresent(table: table))
    }

    @Test func aRenamedFolderAboveItDoesNotHideIt() throws {
        let presence = try #require(MountPresence(mountpoint: "/mnt/my bucket", table: table))
        #expect(presence.isPresent(table: table.replacing("/mnt/my", with: "/srv/my")))
    }

    @Test func anotherMountAtThePathIsNotIt() throws {
        let presence = try #require(MountPresence(mountpoint: "/mnt/other", table: table))
        #expect(!presence.isPresent(table: table.replacing("0:58", with: "0:99")))
    }

    @Test func nothingIsSaidOfAnUnreadableTable() throws {
        let presence = try #require(MountPresence(mountpoint: "/mnt/other", table: table))
        #expect(presence.isPresent(table: ""))
        #expect(MountPresence(mountpoint: "/mnt/none", table: table) == nil)
    }
}
