// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc
internal import Platform

/// Whether reads of whole cached files can go from the kernel to the cache without our process (FUSE passthrough).
///
/// It is for read-only mounts: what is written would not show in such a file.
package struct PassthroughAbility: Hashable, Sendable {
    /// Of Linux.
    package var kernel: Version
    /// As far as its configuration is to be found: without that it may still refuse.
    package var isBuiltIn: Bool
    /// The kernel does it for root only, and not for root of a user namespace.
    package var isPrivileged: Bool
    /// The cache's file system can clone files (ioctl_ficlone(2)).
    package var canClone: Bool

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

    package static let leastKernel = Version(6, 9)

    package init(kernel: Version, isBuiltIn: Bool = true, isPrivileged: Bool, canClone: Bool) {
        self.kernel = kernel
        self.isBuiltIn = isBuiltIn
        self.isPrivileged = isPrivileged
        self.canClone = canClone
    }

    /// What this machine and user have.
    package static func ofThisMachine(canClone: Bool) -> PassthroughAbility {
        let configuration = try? Files.read("/boot/config-\(release)")
        return PassthroughAbility(
            kernel: runningKernel,
            isBuiltIn: configuration.map { isBuiltIn(accordingTo: String(decoding: $0, as: UTF8.self)) } ?? true,
            isPrivileged: isPrivileged,
            canClone: canClone
        )
    }

    /// Whether the kernel and the user let it be tried.
    package static var isPermitted: Bool { isPrivileged && runningKernel >= leastKernel }

    private static var isPrivileged: Bool {
        guard let status = try? Files.read("/proc/self/status"), let users = try? Files.read("/proc/self/uid_map")
        else { return geteuid() == 0 }
        return isPrivileged(
            status: String(decoding: status, as: UTF8.self),
            userMap: String(decoding: users, as: UTF8.self)
        )
    }

    /// Whether a process has CAP_SYS_ADMIN (capabilities(7)) in the first user namespace, by its `/proc/PID/status` and
    /// `/proc/PID/uid_map`: there all users are what they are (user_namespaces(7)).
    package static func isPrivileged(status: String, userMap: String) -> Bool {
        let row = status.split(separator: "\n").first { $0.hasPrefix("CapEff:") }
        let effective = row.flatMap { $0.split(whereSeparator: \.isWhitespace).last }.flatMap { UInt64($0, radix: 16) }
        guard let effective, effective & administration != 0 else { return false }
        return userMap.split(whereSeparator: \.isWhitespace) == ["0", "0", "4294967295"]
    }

    /// The bit of CAP_SYS_ADMIN (linux/capability.h).
    private static let administration: UInt64 = 1 << 21

    /// Whether a kernel with this configuration (`/boot/config-*`) has it.
    package static func isBuiltIn(accordingTo configuration: String) -> Bool {
        !configuration.split(separator: "\n").contains("# CONFIG_FUSE_PASSTHROUGH is not set")
    }

    private static var runningKernel: Version { Version(release) ?? Version(0, 0) }

    private static var release: String {
        var names = utsname()
        uname(&names)
        return withUnsafeBytes(of: names.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }

    /// Why it is not used, on one line; nil when it is.
    package var obstacle: String? {
        if kernel < Self.leastKernel { return "it needs Linux \(Self.leastKernel), here is \(kernel)" }
        if !isBuiltIn { return "this kernel was built without CONFIG_FUSE_PASSTHROUGH" }
        if !isPrivileged { return "it needs root, outside of any user namespace" }
        return canClone ? nil : "the cache's file system cannot clone files, as XFS and Btrfs can"
    }
}
