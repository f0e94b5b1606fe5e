// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The attributes of a file, folder, symbolic link or special file that travel with its object.
package struct FileAttributes: Hashable, Sendable {
    /// The full st_mode: type bits and permissions, see inode(7).
    package var mode: UInt32
    package var uid: UInt32
    package var gid: UInt32
    /// The time of the last change of the content.
    package var modified: Timestamp
    /// The number of a device (st_rdev, as Linux encodes it); 0 for everything else.
    package var device: UInt32
    package var extended: ExtendedAttributes

    package init(
        mode: UInt32,
        uid: UInt32,
        gid: UInt32,
        modified: Timestamp,
        device: UInt32 = 0,
        extended: ExtendedAttributes = .none
    ) {
        self.mode = mode
        self.uid = uid
        self.gid = gid
        self.modified = modified
        self.device = device
        self.extended = extended
    }

    /// The type bits of `mode` (S_IFMT).
    package static let typeMask: UInt32 = 0o170000
    package static let regularType: UInt32 = 0o100000
    package static let directoryType: UInt32 = 0o040000
    package static let symbolicLinkType: UInt32 = 0o120000
    package static let fifoType: UInt32 = 0o010000
    package static let characterDeviceType: UInt32 = 0o020000
    package static let blockDeviceType: UInt32 = 0o060000
    package static let socketType: UInt32 = 0o140000

    package var isDirectory: Bool { mode & Self.typeMask == Self.directoryType }
    package var isSymbolicLink: Bool { mode & Self.typeMask == Self.symbolicLinkType }
    /// A character or block device.
    package var isDevice: Bool { [Self.characterDeviceType, Self.blockDeviceType].contains(mode & Self.typeMask) }
    /// A FIFO, a socket or a device: nothing but attributes, the kernel does the rest.
    package var isSpecial: Bool { isDevice || [Self.fifoType, Self.socketType].contains(mode & Self.typeMask) }
    package var permissions: UInt32 { mode & ~Self.typeMask }
}

/// A change of some attributes; nil leaves one as it is.
package struct AttributeChanges: Hashable, Sendable {
    /// The permission bits (the low 12 bits count; the type cannot change).
    package var permissions: UInt32?
    package var uid: UInt32?
    package var gid: UInt32?
    package var modified: Timestamp?
    /// All of them.
    package var extended: ExtendedAttributes?

    package init(
        permissions: UInt32? = nil,
        uid: UInt32? = nil,
        gid: UInt32? = nil,
        modified: Timestamp? = nil,
        extended: ExtendedAttributes? = nil
    ) {
        self.permissions = permissions
        self.uid = uid
        self.gid = gid
        self.modified = modified
        self.extended = extended
    }
}

extension FileAttributes {
    /// These attributes with the changes made.
    package func applying(_ changes: AttributeChanges) -> FileAttributes {
        FileAttributes(
            mode: changes.permissions.map { mode & Self.typeMask | $0 & 0o7777 } ?? mode,
            uid: changes.uid ?? uid,
            gid: changes.gid ?? gid,
            modified: changes.modified ?? modified,
            device: device,
            extended: changes.extended ?? extended
        )
    }
}
