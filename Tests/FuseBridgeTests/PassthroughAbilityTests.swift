// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import FuseBridge
import Testing

@Suite struct PassthroughAbilityTests {
    private typealias Version = PassthroughAbility.Version

    @Test func versionsAreReadAndCompared() throws {
        #expect(Version("6.1.0-18-amd64") == Version(6, 1))
        #expect(Version("6.9-rc1") == Version(6, 9))
        #expect(try #require(Version("5.19.17")) < Version(6, 1))
        #expect(Version(6, 9) < Version(6, 18))
        #expect(Version("linux") == nil && Version("6.x") == nil)
    }

    @Test func whatIsMissingIsSaid() {
        func obstacle(_ kernel: Version, _ isPrivileged: Bool, _ canClone: Bool) -> String? {
            PassthroughAbility(kernel: kernel, isPrivileged: isPrivileged, canClone: canClone).obstacle
        }
        #expect(obstacle(Version(6, 8), true, true) == "it needs Linux 6.9, here is 6.8")
        #expect(obstacle(Version(6, 9), false, true) == "it needs root, outside of any user namespace")
        let disk = "the cache's file system cannot clone files, as XFS and Btrfs can"
        #expect(obstacle(Version(6, 18), true, false) == disk)
        #expect(obstacle(Version(6, 18), true, true) == nil)
        let bare = PassthroughAbility(kernel: Version(6, 18), isBuiltIn: false, isPrivileged: true, canClone: true)
        #expect(bare.obstacle == "this kernel was built without CONFIG_FUSE_PASSTHROUGH")
    }

    @Test(arguments: [
        ("000001ffffffffff", "         0          0 4294967295\n", true),
        // Without CAP_SYS_ADMIN, as in a container.
        ("00000000a80425fb", "         0          0 4294967295\n", false),
        ("0000000000000000", "         0          0 4294967295\n", false),
        // Root of a user namespace of its own.
        ("000001ffffffffff", "         0       1000          1\n", false),
        ("000001ffffffffff", "         0     100000      65536\n", false),
        ("000001ffffffffff", "         0       1000          1\n         1     100000      65536\n", false),
        ("", "", false),
    ]) func rootOfANamespaceIsNotEnough(effective: String, users: String, expected: Bool) {
        let status = "Name:\tmoorage\nCapPrm:\t000001ffffffffff\nCapEff:\t\(effective)\nCapBnd:\t000001ffffffffff\n"
        #expect(PassthroughAbility.isPrivileged(status: status, userMap: users) == expected)
    }

    @Test func aConfigurationTellsOfWhatIsNotThere() {
        let lines = "CONFIG_FUSE_FS=m\n# CONFIG_FUSE_PASSTHROUGH is not set\nCONFIG_VIRTIO_FS=m\n"
        #expect(!PassthroughAbility.isBuiltIn(accordingTo: lines))
        #expect(PassthroughAbility.isBuiltIn(accordingTo: "CONFIG_FUSE_FS=m\nCONFIG_FUSE_PASSTHROUGH=y\n"))
        #expect(PassthroughAbility.isBuiltIn(accordingTo: "CONFIG_FUSE_FS=m\n"))
    }

    @Test func thisMachineHasAKernel() {
        #expect(PassthroughAbility.ofThisMachine(canClone: true).kernel >= Version(4, 20))
    }
}
