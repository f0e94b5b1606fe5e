// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How a volume is presented.
package struct FileSystemOptions: Hashable, Sendable {
    package var isReadOnly: Bool
    /// The owner of objects that say nothing of one.
    package var uid: UInt32
    package var gid: UInt32
    /// Permission bits taken away from objects that say nothing of theirs.
    package var umask: UInt32
    /// How long a listing of a folder is believed, in seconds.
    package var metadataAge: Double
    /// How long the kernel may keep names and attributes, in seconds.
    package var kernelAge: Double
    /// Whether files of which only a listing is known show its time and default attributes, without being asked for.
    package var usesServerModificationTime: Bool
    /// The most bytes of a file's path: what a key may have (1,024) less the prefix of the volume.
    ///
    /// A folder's key ends with a slash, so its path may have one byte less.
    package var longestPath: Int
    /// Whether fsync(2) returns only when what it is for is at the remote.
    package var syncsToRemote: Bool
    /// Whether the last writer's close(2) returns only when the content is at the remote.
    package var closesToRemote: Bool
    /// How many bytes local content may take before writers wait for uploads; nil: what the disk has.
    package var stagingLimit: Int64?
    /// How long they wait before they get ENOSPC, in seconds.
    package var stagingWait: Double

    package init(
        isReadOnly: Bool = false,
        uid: UInt32,
        gid: UInt32,
        umask: UInt32 = 0o022,
        metadataAge: Double = 10,
        kernelAge: Double = 1,
        usesServerModificationTime: Bool = false,
        longestPath: Int = 1_024,
        syncsToRemote: Bool = false,
        closesToRemote: Bool = false,
        stagingLimit: Int64? = nil,
        stagingWait: Double = 60
    ) {
        self.isReadOnly = isReadOnly
        self.uid = uid
        self.gid = gid
        self.umask = umask
        self.metadataAge = metadataAge
        self.kernelAge = kernelAge
        self.usesServerModificationTime = usesServerModificationTime
        self.longestPath = longestPath
        self.syncsToRemote = syncsToRemote
        self.closesToRemote = closesToRemote
        self.stagingLimit = stagingLimit
        self.stagingWait = stagingWait
    }
}
