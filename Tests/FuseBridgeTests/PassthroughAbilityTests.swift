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
        func reason(_ library: Version, _ kernel: Version) -> String {
            PassthroughAbility(built: Version(3, 14), library: library, kernel: kernel).reason
        }
        let old = "it needs libfuse 3.17 and Linux 6.9, here are libfuse 3.14 and Linux 6.1"
        #expect(reason(Version(3, 14), Version(6, 1)) == old)
        #expect(reason(Version(3, 16), Version(6, 18)).hasPrefix("it needs libfuse 3.17"))
        #expect(reason(Version(3, 18), Version(6, 8)).hasPrefix("it needs libfuse 3.17"))
        let new = "here are libfuse 3.17 and Linux 6.12, but this program was built with libfuse 3.14"
        #expect(reason(Version(3, 17), Version(6, 12)) == new)
    }

    @Test func thisMachineHasBoth() {
        let ability = PassthroughAbility.ofThisMachine()
        #expect(ability.library >= Version(3, 14) && ability.kernel >= Version(4, 20))
    }
}
