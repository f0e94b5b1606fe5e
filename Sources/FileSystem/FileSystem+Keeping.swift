// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import Platform

/// Files that lose their names while they are open: what the remote has of them is not deleted or replaced before it
/// was read, or is here.
extension FileSystem {
    /// Runs a change of the journal by which a file loses its name, whose remote versions are held from before it.
    ///
    /// Also when nobody has it open: somebody may open it meanwhile. The namespace is locked, and the inode is taken off
    /// its name, with ``detach(_:)``, right after this.
    func keepingReadable<Value>(
        _ inode: Inode?,
        at path: ObjectKey,
        _ change: () throws(FileError) -> Value
    ) throws(FileError) -> Value {
        if let inode, inode.kind == .file { hold(inode, at: path) }
        do throws(FileError) {
            return try change()
        } catch {
            inode?.state.withLock { $0.endKept() }
            throw error
        }
    }

    private func hold(_ inode: Inode, at path: ObjectKey) {
        // Its own upload may have taken the place of what it shows.
        if inode.state.withLock({ $0.handles > 0 }) { _ = try? follow(inode, at: path) }
        inode.state.withLock { state in
            state.endKept()
            state.kept = state.content.remoteVersions.map { key, version in
                KeptVersion(key, version, held.hold(key, version))
            }
        }
    }
}
