// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import Platform

/// What to do when a file's bytes are not where they were a moment ago.
extension FileSystem {
    /// How often a read or a write looks for what the file shows anew.
    static let maximumLooks = 3
    /// How long it waits for the end of an upload that has replaced what it shows, in seconds.
    static let commitPatience = 30.0
    /// Between two looks whether that has ended, in seconds.
    private static let commitGlance = 0.001...0.05

    /// Looks at journal and catalog anew, when it is known what they are going to say; false when there is nothing new
    /// to be had.
    func lookAnew(at inode: Inode) throws(FileError) -> Bool {
        try outlastCommit(of: inode)
        return try reload(inode)
    }

    /// Waits while our own upload may have replaced what a file shows, and the journal does not say so yet.
    ///
    /// Between the server's commit and the journal's record of it the version that the file stands on is gone, and the next
    /// is not known. That takes an answer's way and a sync of the disk, or a server's time for putting parts together.
    private func outlastCommit(of inode: Inode) throws(FileError) {
        let keys = Set(inode.state.withLock { $0.content.remoteVersions.map { $0.key } })
        let end = monotonicSeconds() + Self.commitPatience
        var pause = Self.commitGlance.lowerBound
        while try isCommitting(keys), monotonicSeconds() < end {
            try WriterPause.rest(pause)
            pause = min(pause * 2, Self.commitGlance.upperBound)
        }
    }

    private func isCommitting(_ keys: Set<ObjectKey>) throws(FileError) -> Bool {
        for key in keys where try translating({ try journal.isCommitting(key) }) { return true }
        return false
    }
}
