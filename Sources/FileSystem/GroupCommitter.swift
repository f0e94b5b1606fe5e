// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
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
    private let files = Lock<[GenerationID: StagingFile]>([:])
    /// What a close(2) completed while nobody knows yet whether it was the last one of its handle.
    private let undecided = Monitor<[InodeNumber: GenerationID]>([:])
    /// Held while files are synced; before `files` and the journal's own locks.
    private let syncing = Lock(())
    /// How long to gather closed files before they are synced together, in seconds: long enough for many where they
    /// come fast, longer where the disk is slow to sync them, and short where an upload would wait for one.
    private static let gathering = 0.15
    private static let longestGathering = 1.0
    private static let shortGathering = 0.05
    /// How long a handle may take to come back for those who sync a folder, in seconds: longer than for a file to be
    /// opened again whose handle stays.
    private static let patience = 1.0

    init(journal: Journal) {
        self.journal = journal
    }

    /// Starts the thread; it calls `prepare` before each sync, which returns whether it is to be called soon again.
    func start(_ prepare: @escaping @Sendable () -> Bool) throws(SystemError) {
        state.inspect { state in
            state.isWanted = true
            state.hasStopped = false
        }
        try Thread.detached(name: "group-sync") { self.run(prepare) }
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
            for generation in released {
                files.withLock { $0[generation.id] = nil }
                try journal.removeStaging(generation.id)
            }
            return !released.isEmpty
        } catch {
            Log.warning("mount", "files of removed content stay for now: \(error)")
            return false
        }
    }

    /// Syncs what is left and ends the thread.
    func stop() {
        undecided.update { $0 = [:] }
        state.update { $0.isStopping = true }
        _ = state.wait { $0.hasStopped ? true : nil }
    }

    private func run(_ prepare: () -> Bool) {
        var isStopping = false
        var isBusy = false
        var lastSync = 0.0
        while !isStopping {
            isStopping = state.wait { $0.isStopping ? true : $0.isWanted ? false : nil } ?? true
            if !isStopping {
                let busyTime = min(max(Self.gathering, 3 * lastSync), Self.longestGathering)
                let time = isBusy ? busyTime : Self.shortGathering
                _ = state.wait(timeout: time) { $0.isStopping ? true : nil }
            }
            // Before the look: what changes during it is seen by the next one.
            state.inspect { $0.isWanted = false }
            if prepare() { state.inspect { $0.isWanted = true } }
            reclaim(everything: false)
            let started = monotonicSeconds()
            do {
                isBusy = try synchronizeAll() >= Journal.manyFiles
                lastSync = monotonicSeconds() - started
                if !isStopping, try journal.completeChecksums() { state.inspect { $0.isWanted = true } }
            } catch {
                Log.error("mount", "closed files could not be made durable yet: \(error)")
                state.inspect { $0.isWanted = true }
                _ = state.wait(timeout: 5) { $0.isStopping ? true : nil }
            }
        }
        state.update { $0.hasStopped = true }
    }

    /// Syncs all that was closed and makes every commit durable; returns how many files were synced.
    ///
    /// One caller at a time: the kernel tells an error of the whole disk only once.
    func synchronizeAll() throws -> Int {
        try syncing.withLock { _ in try synchronizeWaiting() }
    }

    private func synchronizeWaiting() throws -> Int {
        let waiting = files.withLock { $0 }
        let open = undecided.inspect { Set($0.values) }
        // Also with no files: names and attributes are commits like any other.
        let count = try journal.synchronizeSealed(except: open, always: true) { id throws(SystemError) in
            guard let file = waiting[id] else { return false }
            try file.synchronizeData(journal)
            return true
        }
        let unsynced = Set(try journal.unsyncedGenerations(limit: Self.heldFiles).map(\.id))
        files.withLock { files in
            for (id, file) in waiting where files[id] === file && !unsynced.contains(id) { files[id] = nil }
        }
        return count
    }
}

/// Files that were closed and are not synced yet, open as they were written: only such a descriptor hears of every
/// error of the disk since.
extension GroupCommitter {
    /// Keeps a file open until it is synced, while there is room for more.
    func hold(_ id: GenerationID, _ file: StagingFile) {
        files.withLock { files in
            if files.count < Self.heldFiles || files[id] != nil { files[id] = file }
        }
    }

    /// The file of a generation that waits for its sync.
    func held(_ id: GenerationID) -> StagingFile? {
        files.withLock { $0[id] }
    }

    /// A quarter of what the process may open.
    private static let heldFiles = min(FileDescriptor.limit / 4, 4096)
}

/// Files that a close(2) has completed and that may be open all the same, by a duplicate of the descriptor.
///
/// What such a file has then is not what its writer wants to have: power loss is to bring back what was there before.
extension GroupCommitter {
    /// To be called before the file is complete.
    func expectHandle(of inode: InodeNumber, _ id: GenerationID) {
        undecided.inspect { $0[inode] = id }
    }

    /// The last handle for writing came back, or the file is open again.
    func decided(_ inode: InodeNumber) {
        guard undecided.inspect({ $0[inode] != nil }) else { return }
        undecided.update { $0[inode] = nil }
        // The sync that the close asked for may have passed it by.
        changed()
    }

    /// Waits until it is known of all that closes have completed so far: what was closed for good is to be synced.
    func awaitDecisions() {
        let open = undecided.inspect { Set($0.values) }
        if open.isEmpty { return }
        _ = undecided.wait(timeout: Self.patience) { open.isDisjoint(with: $0.values) ? true : nil }
    }
}
