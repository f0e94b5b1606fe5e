// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Journal
internal import Platform

/// Files that nobody writes any more and that could not be completed, as the disk failed when the last writer left.
///
/// Whoever closed them was told. They are completed, and sent, when the disk is well again.
final class UnfinishedFiles: Sendable {
    private let files = Lock<[InodeNumber: Inode]>([:])

    /// Whether it is news.
    func note(_ inode: Inode) -> Bool {
        files.withLock { $0.updateValue(inode, forKey: inode.number) == nil }
    }

    /// Takes all of them out.
    func take() -> [Inode] {
        files.withLock { files in
            defer { files = [:] }
            return Array(files.values)
        }
    }
}

extension FileSystem {
    /// Takes care of a file that could not be completed, where no writer is left who would.
    func noteUnfinished(_ inode: Inode) {
        guard inode.state.withLock({ $0.writers == 0 && $0.isWritable && !$0.isDetached }) else { return }
        // What was written is known to the inode alone: the kernel's forgetting must not be its end.
        if table.retain(inode), !unfinished.note(inode) { table.forget(inode.number, count: 1) }
    }

    /// Completes what could not be completed before; called every few seconds.
    func completeUnfinished() {
        // Taken out first: one that fails again, here or when a writer leaves meanwhile, is noted anew.
        for inode in unfinished.take() {
            do throws(FileError) {
                if try recordContent(of: inode, sealing: false) {
                    Log.notice("mount", "a file is complete now that the disk can be written to")
                }
            } catch {
                Log.debug("mount", "a file cannot be completed yet: \(error)")
            }
            inode.state.withLock { $0.handles == 0 ? settle(&$0) : [] }.end()
            table.forget(inode.number, count: 1)
        }
    }
}
