// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import Journal
internal import Platform

/// Makes closed files and changed names survive power loss, many at a time, within about a second.
final class GroupCommitter: Sendable {
    private struct State {
        var isWanted = false
        var isStopping = false
        var hasStopped = true
    }

    private let journal: Journal
    private let state = Monitor(State())
    /// How long to gather closed files before they are synced together, in seconds.
    private static let gathering = 0.5
    /// From this many files on one syncfs(2) costs less than a sync of each.
    private static let manyFiles = 16

    init(journal: Journal) {
        self.journal = journal
    }

    func start() throws(SystemError) {
        state.inspect { state in
            state.isWanted = true
            state.hasStopped = false
        }
        try Thread.detached(name: "group-sync") { self.run() }
    }

    /// A file was closed, or a name or attribute changed, and waits for its sync.
    func changed() {
        let isNews = state.inspect { !$0.isWanted }
        if isNews { state.update { $0.isWanted = true } }
    }

    /// Deletes the staging files that nothing needs any more; whether there were some.
    ///
    /// Those that the block cache may take from the flusher stay, unless `everything` is to go because the disk is full.
    @discardableResult
    func reclaim(everything: Bool) -> Bool {
        do {
            let released = try journal.releaseGenerations(keepingAdoptable: !everything)
            for generation in released { try journal.removeStaging(generation.id) }
            return !released.isEmpty
        } catch {
            Log.warning("mount", "files of removed content stay for now: \(error)")
            return false
        }
    }

    /// Syncs what is left and ends the thread.
    func stop() {
        state.update { $0.isStopping = true }
        _ = state.wait { $0.hasStopped ? true : nil }
    }

    private func run() {
        var isStopping = false
        while !isStopping {
            isStopping = state.wait { $0.isStopping ? true : $0.isWanted ? false : nil } ?? true
            if !isStopping {
                _ = state.wait(timeout: Self.gathering) { $0.isStopping ? true : nil }
            }
            state.inspect { $0.isWanted = false }
            reclaim(everything: false)
            do {
                try synchronizeAll()
            } catch {
                Log.error("mount", "closed files could not be made durable yet: \(error)")
                state.inspect { $0.isWanted = true }
                _ = state.wait(timeout: 5) { $0.isStopping ? true : nil }
            }
        }
        state.update { $0.hasStopped = true }
    }

    private func synchronizeAll() throws {
        while true {
            let generations = try journal.unsyncedGenerations(limit: 1000)
            // Also with no files: names and attributes are commits like any other.
            try synchronizeFiles(of: generations)
            try journal.markSynced(generations)
            if generations.count < 1000 { return }
        }
    }

    private func synchronizeFiles(of generations: [Generation]) throws {
        let withData = generations.filter { !$0.content.extents.isEmpty }
        if withData.count >= Self.manyFiles {
            let folder = try FileDescriptor.open(journal.directory + "/staging", 0)
            if moorage_syncfs(folder.raw) != 0 { throw SystemError.last("syncfs", journal.directory) }
            return
        }
        for generation in withData {
            // A file that is gone was uploaded or removed meanwhile: its record has changed too.
            guard let file = try? journal.openStaging(generation.id, creating: false) else { continue }
            try file.synchronizeData()
        }
        if !withData.isEmpty { try journal.synchronizeStagingDirectory() }
    }
}
