// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import Platform

/// Has the journal get the rows of new files that are not closed soon.
///
/// Most are: then one transaction makes the row with all that it is to hold.
final class NewFileKeeper: Sendable {
    private struct State {
        var isWanted = false
        var isStopping = false
        var hasStopped = true
    }

    private let journal: Journal
    private let state = Monitor(State())
    /// How long a new file may be without a row, in seconds; the look at it comes as late again.
    private static let patience = 0.025

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
        let isNews = state.inspect { !$0.isWanted }
        if isNews { state.update { $0.isWanted = true } }
    }

    func stop() {
        state.update { $0.isStopping = true }
        _ = state.wait { $0.hasStopped ? true : nil }
    }

    private func run() {
        while state.wait(until: { $0.isStopping ? false : $0.isWanted ? true : nil }) == true {
            _ = state.wait(timeout: Self.patience) { $0.isStopping ? true : nil }
            // Before the look: what is made during it is seen by the next one.
            state.inspect { $0.isWanted = false }
            do throws(JournalError) {
                if try journal.writeNewFiles(olderThan: Self.patience) { state.inspect { $0.isWanted = true } }
            } catch {
                Log.error("mount", "new files could not be written down yet: \(error)")
                state.inspect { $0.isWanted = true }
                _ = state.wait(timeout: 1) { $0.isStopping ? true : nil }
            }
        }
        state.update { $0.hasStopped = true }
    }
}
