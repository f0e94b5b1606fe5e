// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import Platform

/// Has the journal get the rows of new files that are not closed soon, and makes their staging files ahead where many come.
///
/// Most are closed soon: then one transaction makes the row with all that it is to hold.
final class NewFileKeeper: Sendable {
    private struct State {
        var isWanted = false
        /// How many new files there were since the last look.
        var recent = 0
        var isStopping = false
        var hasStopped = true
    }

    private let journal: Journal
    private let state = Monitor(State())
    /// How long a new file may be without a row, in seconds; the look at it comes as late again.
    private static let patience = 0.025
    /// How many new files within that time are a sign that more come.
    private static let many = 8
    /// How long none must have come before what was made ahead is taken away, in seconds.
    private static let pause = 0.2

    init(journal: Journal) {
        self.journal = journal
    }

    func start() throws(SystemError) {
        state.inspect { $0.hasStopped = false }
        try Thread.detached(name: "new-files") { self.run() }
    }

    /// There is a new file.
    func noteNew() {
        // Most come while one is waited for already: they must not wake the waiting thread for nothing.
        let isNews = state.inspect { state in
            state.recent += 1
            return !state.isWanted
        }
        if isNews { state.update { $0.isWanted = true } }
    }

    func stop() {
        state.update { $0.isStopping = true }
        _ = state.wait { $0.hasStopped ? true : nil }
    }

    private func run() {
        while waitForNew() {
            _ = state.wait(timeout: Self.patience) { $0.isStopping ? true : nil }
            // Before the look: what is made during it is seen by the next one.
            let recent = state.inspect { state in
                state.isWanted = false
                defer { state.recent = 0 }
                return state.recent
            }
            if recent >= Self.many { prepare() }
            do throws(JournalError) {
                if try journal.writeNewFiles(olderThan: Self.patience) { state.inspect { $0.isWanted = true } }
            } catch {
                Log.error("mount", "new files could not be written down yet: \(error)")
                state.inspect { $0.isWanted = true }
                _ = state.wait(timeout: 1) { $0.isStopping ? true : nil }
            }
        }
        journal.discardPreparedFiles()
        state.update { $0.hasStopped = true }
    }

    /// Waits until there is a new file; false when the keeper stops.
    private func waitForNew() -> Bool {
        func news(_ state: inout State) -> Bool? { state.isStopping ? false : state.isWanted ? true : nil }
        if let isNews = state.wait(timeout: Self.pause, until: news) { return isNews }
        journal.discardPreparedFiles()
        return state.wait(until: news) == true
    }

    private func prepare() {
        do throws(SystemError) {
            try journal.prepareNewFiles()
        } catch {
            // Whoever needs the file tries it again, and has somebody to tell.
            Log.debug("mount", "no staging files were made ahead: \(error)")
        }
    }
}
