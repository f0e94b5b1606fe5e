// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Database
internal import Journal
internal import Platform
internal import Synchronization

extension VolumeSession {
    /// Gives the files of finished content to the block cache, and deletes the others.
    ///
    /// When it returns, all that was finished before is in the cache, also what another thread was at.
    func adoptFinished() throws(JournalError) {
        try adopting.withLock { _ throws(JournalError) in
            while true {
                let released = try journal.releaseGenerations()
                for generation in released {
                    if let object = generation.object {
                        let path = journal.stagingPath(generation.id)
                        cache.adopt(path, as: object.key, version: object.version, check: generation.check)
                    }
                    do throws(SystemError) {
                        try journal.removeStaging(generation.id)
                    } catch {
                        Log.warning("flusher", "a file of finished content stays for now: \(error)")
                        hasLeftFiles.store(true, ordering: .relaxed)
                    }
                }
                if released.count < 1000 { return }
            }
        }
    }
}
