// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What the kernel is told about a mount.
package struct MountOptions: Hashable, Sendable {
    /// Absolute, an existing empty folder.
    package var mountpoint: String
    /// The remote as people know it, such as `s3://bucket/prefix`.
    package var source: String
    package var isReadOnly: Bool
    /// Lets other users in; the permissions of each file decide then.
    package var allowsOther: Bool

    /// Keeps the kernel from running programs in the mount.
    package var forbidsExecution: Bool

    package init(
        mountpoint: String,
        source: String,
        isReadOnly: Bool = false,
        allowsOther: Bool = false,
        forbidsExecution: Bool = false
    ) {
        self.mountpoint = mountpoint
        self.source = source
        self.isReadOnly = isReadOnly
        self.allowsOther = allowsOther
        self.forbidsExecution = forbidsExecution
    }

    /// The arguments for libfuse, a program name first.
    var arguments: [String] {
        // In the kernel's list of mounts a comma in a name would end the option.
        let name = source.replacing("\\", with: "\\\\").replacing(",", with: "\\,")
        var list = [
            "fsname=moorage#\(name)", "subtype=moorage", "default_permissions", "nosuid", "nodev",
            "max_read=\(Operations.maximumTransfer)",
        ]
        if isReadOnly { list.append("ro") }
        if allowsOther { list.append("allow_other") }
        if forbidsExecution { list.append("noexec") }
        return ["moorage", "-o", list.joined(separator: ",")]
    }
}

/// Why a mount could not be made.
package struct MountError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
}
