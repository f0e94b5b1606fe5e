// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CFuse
internal import Glibc

/// Whether reads of whole cached files could go from the kernel to the cache without our process (FUSE passthrough).
package struct PassthroughAbility: Hashable, Sendable {
    /// Versions as major and minor numbers: libfuse as it was when this was built, as it is now, and Linux.
    package var built: Version
    package var library: Version
    package var kernel: Version

    /// Two numbers of a version.
    package struct Version: Hashable, Sendable, Comparable, CustomStringConvertible {
        package var major: Int
        package var minor: Int

        package init(_ major: Int, _ minor: Int) {
            self.major = major
            self.minor = minor
        }

        /// Reads the beginning of a text such as `6.1.0-18-amd64`.
        package init?(_ text: String) {
            let parts = text.split(separator: ".", maxSplits: 2)
            guard parts.count >= 2, let major = Int(parts[0]), let minor = Int(parts[1].prefix { $0.isNumber })
            else { return nil }
            self.init(major, minor)
        }

        package static func < (one: Version, other: Version) -> Bool {
            (one.major, one.minor) < (other.major, other.minor)
        }

        package var description: String { "\(major).\(minor)" }
    }

    package static let leastLibrary = Version(3, 17)
    package static let leastKernel = Version(6, 9)

    package init(built: Version, library: Version, kernel: Version) {
        self.built = built
        self.library = library
        self.kernel = kernel
    }

    /// What this machine has.
    package static func ofThisMachine() -> PassthroughAbility {
        var names = utsname()
        uname(&names)
        let release = withUnsafeBytes(of: names.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        let number = Int(fuse_version())
        return PassthroughAbility(
            built: Version(Int(FUSE_MAJOR_VERSION), Int(FUSE_MINOR_VERSION)),
            library: Version(number / 100, number % 100),
            kernel: Version(release) ?? Version(0, 0)
        )
    }

    /// Why it is not used, on one line.
    package var reason: String {
        let needs = "it needs libfuse \(Self.leastLibrary) and Linux \(Self.leastKernel)"
        let lacks = library < Self.leastLibrary || kernel < Self.leastKernel
        let has = "here are libfuse \(library) and Linux \(kernel)"
        return lacks ? "\(needs), \(has)" : "\(has), but this program was built with libfuse \(built)"
    }
}
