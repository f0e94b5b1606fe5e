// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Journal
internal import Platform

/// Files that a flush completed while a handle for writing was still there.
///
/// The kernel asks for a flush at each close(2) of a descriptor, also of one that a child process inherited and that
/// ends with it; only after the last one it gives back the handle. So close() can keep its promise, but what was
/// completed may stay open: then it is taken back, before its upload begins.
final class FlushedFiles: Sendable {
    private struct Flushed {
        let inode: Inode
        /// That by which it was flushed.
        let handle: FileHandle
        /// Monotonic seconds.
        let since: Double
    }

    private let files = Lock<[InodeNumber: Flushed]>([:])
    /// Held while files are opened again; true: none is any more.
    private let isStopped = Lock(false)
    /// How long the kernel may take to give back a handle after its last flush, in seconds: less than a quiet period,
    /// and long for a busy machine, as a flush of uploads does not wait for what counts as open.
    private static let patience = 0.5

    func note(_ handle: FileHandle) {
        let inode = handle.inode
        files.withLock { $0[inode.number] = Flushed(inode: inode, handle: handle, since: monotonicSeconds()) }
    }

    /// Whether a file is complete by a flush, and nobody knows yet whether its handle stays.
    func holds(_ inode: Inode) -> Bool {
        files.withLock { $0[inode.number] != nil }
    }

    /// Forgets a file whose last handle for writing is given back, or the one by which it was flushed: others were opened
    /// since, and have written nothing.
    ///
    /// Returns whether it is known now that the file is complete.
    func forget(_ handle: FileHandle, isLast: Bool) -> Bool {
        files.withLock { files in
            guard isLast || files[handle.inode.number]?.handle === handle else { return false }
            files[handle.inode.number] = nil
            return true
        }
    }

    /// Calls `reopen` with each file that has kept its handle; whether others may have.
    func takeOpen(_ reopen: (Inode) -> Void) -> Bool {
        isStopped.withLock { isStopped in
            if isStopped { return false }
            let time = monotonicSeconds() - Self.patience
            let (open, areMore) = files.withLock { files in
                let open = files.values.filter { $0.since <= time }.map(\.inode)
                for inode in open { files[inode.number] = nil }
                return (open, !files.isEmpty)
            }
            for inode in open { reopen(inode) }
            return areMore
        }
    }

    /// The mount ends: what is complete stays so.
    func stop() {
        isStopped.withLock { $0 = true }
    }
}

extension FileSystem {
    /// Opens again what was completed but is still open; whether there may be more of that soon.
    func reopenFlushed() -> Bool {
        flushed.takeOpen { inode in
            defer { committer.decided(inode.number) }
            do throws(FileError) {
                try reopen(inode)
            } catch {
                Log.info("mount", "a file that is still open is uploaded as it was flushed: \(error)")
            }
        }
    }

    private func reopen(_ inode: Inode) throws(FileError) {
        let node = inode.state.withLock { state in
            state.writers > 0 && !state.isWritable && !state.isDetached ? state.node : nil
        }
        // What has no row any more is at the remote already, or was not changed.
        guard let node, try translating({ try journal.node(node) }) != nil else { return }
        _ = try beginWrite(inode)
        try endChange(inode)
    }
}
