// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Database
internal import Platform

/// Puts the answers of many threads into the catalog together: a transaction costs as much as many answers in it.
final class AnswerKeeper: Sendable {
    private struct State {
        var waiting: [(entry: CatalogEntry, token: CatalogToken)] = []
        var isWriting = false
        /// How many answers were handed in, and how many of these are written or failed.
        var accepted = 0
        var finished = 0
        /// The answers that failed last, by their places in the order of acceptance.
        var failed = 0..<0
        var failure: DatabaseError?
    }

    private let catalog: Catalog
    private let state = Monitor(State())

    init(catalog: Catalog) {
        self.catalog = catalog
    }

    /// Returns when the answer is in the catalog; the first thread to come writes for all that come meanwhile.
    func keep(_ entry: CatalogEntry, since token: CatalogToken) throws(DatabaseError) {
        let (place, isFirst) = state.inspect { state in
            defer {
                state.waiting.append((entry, token))
                state.accepted += 1
                state.isWriting = true
            }
            return (state.accepted, !state.isWriting)
        }
        if isFirst { writeAll() }
        let failure = state.wait { state -> DatabaseError?? in
            guard state.finished > place else { return nil }
            return .some(state.failed.contains(place) ? state.failure : nil)
        }
        if case .some(.some(let error)) = failure { throw error }
    }

    private func writeAll() {
        while true {
            let batch = state.inspect { state in
                if state.waiting.isEmpty { state.isWriting = false }
                defer { state.waiting = [] }
                return state.waiting
            }
            if batch.isEmpty { return }
            var failure: DatabaseError?
            do throws(DatabaseError) {
                try catalog.store(batch)
            } catch {
                failure = error
            }
            state.update { state in
                if let failure {
                    state.failed = state.finished..<state.finished + batch.count
                    state.failure = failure
                }
                state.finished += batch.count
            }
        }
    }
}
