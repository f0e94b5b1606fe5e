// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import Platform

/// Files that lose their names while they are open: what the remote has of them is not deleted or replaced before it
/// was read, or is here.
extension FileSystem {
    /// How often it is looked at what a file shows that loses its name: its own uploads may change that meanwhile.
    private static let maximumLooksAtShown = 4

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
            inode?.state.withLock { $0.takeKept() }.end()
            throw error
        }
    }

    /// Holds what a file shows of the remote.
    ///
    /// Looked at anew once it is held: from then on no upload begins to take its place.
    private func hold(_ inode: Inode, at path: ObjectKey) {
        var known: [UploadedVersion]?
        for _ in 0..<Self.maximumLooksAtShown {
            let (shown, isOpen) = inode.state.withLock { ($0.content.remoteVersions, $0.handles > 0) }
            if shown == known { return }
            hold(shown, for: inode)
            guard isOpen else { return }
            known = shown
            // Its own upload may have taken the place of what it shows, or of what is below what was written since.
            _ = try? follow(inode, at: path)
            _ = try? reloadBelow(inode)
        }
    }

    private func hold(_ versions: [UploadedVersion], for inode: Inode) {
        let new = versions.map { KeptVersion($0.key, $0.version, held.hold($0.key, $0.version)) }
        let old = inode.state.withLock { state in
            defer { state.kept = new }
            return state.kept
        }
        old.end()
    }
}
