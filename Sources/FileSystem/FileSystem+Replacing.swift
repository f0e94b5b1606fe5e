// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import Platform

/// Files that take the name of another whose content is nowhere but here.
extension FileSystem {
    /// How often the two are looked at before the name is given at last: meanwhile others may write to them.
    static let maximumLooksBeforeReplacing = 4

    /// Makes a file safe from power loss that is to take the name of one that is.
    ///
    /// A name reaches the disk without the bytes it was given to, when anything is synced afterwards, and the old bytes
    /// go with their name: power loss would then take both. Where the old ones are at the remote they come back from there.
    func makeSafe(_ inode: Inode, toReplace path: ObjectKey) throws(FileError) {
        guard try wouldExpose(inode, at: path) else { return }
        do throws(FileError) {
            try makeSafe(inode)
        } catch {
            // Its bytes may have gone to the remote meanwhile.
            if try wouldExpose(inode, at: path) { throw error }
        }
    }

    /// Whether power loss could take a file that survives it now, were the inode to have its name.
    func wouldExpose(_ inode: Inode, at path: ObjectKey) throws(FileError) -> Bool {
        let state = inode.state.withLock { $0 }
        guard inode.kind == .file, let generation = state.content.generation, !state.isDetached else { return false }
        return try translating {
            guard let old = try journal.node(at: path)?.generation, old.id != generation,
                try journal.survivesPowerLoss(old.id, orBelow: true)
            else { return false }
            if state.isWritable, state.revision != state.synced { return true }
            // What has no record any more is at the remote.
            guard try journal.generation(generation) != nil else { return false }
            return try !journal.survivesPowerLoss(generation)
        }
    }
}
