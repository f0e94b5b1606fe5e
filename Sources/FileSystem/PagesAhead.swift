// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import ObjectStore
internal import Platform

/// The pages of a listing, each asked for while the one before it is read and worked on.
final class PagesAhead: Sendable {
    private struct State {
        var queue = PageQueue()
        var hasBegun = false
        var isAbandoned = false
        var threads = 0
    }

    /// Asks for a page; what it foretells is what to pass for the next one.
    typealias Fetch =
        @Sendable (_ continuation: String?, _ foretell: (String) -> Void) throws(StoreError) -> ListingPage

    /// One asks while the other reads what has come.
    private static let threadLimit = 2
    private let fetch: Fetch
    private let state = Monitor(State())

    init(_ fetch: @escaping Fetch) {
        self.fetch = fetch
    }

    /// The next page; nil behind the last.
    ///
    /// Only one thread may ask.
    func next() throws(StoreError) -> ListingPage? {
        try begin()
        let result = state.waitUnlessInterrupted { state -> Result<ListingPage?, StoreError>? in
            if let page = state.queue.take() { return .success(page) }
            if case .failure(let failure) = state.queue.outcome { return .failure(failure) }
            if state.isAbandoned { return .failure(StoreError(.cancelled, "the listing was given up")) }
            return state.queue.isOver ? .success(nil) : nil
        }
        guard let result else { throw StoreError(.cancelled, "the request was given up") }
        // Room for one more.
        state.update { _ in }
        return try result.get()
    }

    /// Nobody asks any more.
    func abandon() { state.update { $0.isAbandoned = true } }

    /// The first page is asked for by the caller: most listings have one page and need no thread.
    private func begin() throws(StoreError) {
        let first = state.inspect { state -> PageQueue.Request? in
            defer { state.hasBegun = true }
            return state.hasBegun ? nil : state.queue.begin()
        }
        guard let first else { return }
        perform(first)
        guard state.inspect({ !$0.queue.isOver && $0.threads == 0 }) else { return }
        do throws(SystemError) {
            try addThread()
        } catch {
            throw StoreError(.temporary, "\(error)")
        }
    }

    private func perform(_ request: PageQueue.Request) {
        let result: Result<ListingPage, StoreError>
        do throws(StoreError) {
            let page = try fetch(request.continuation) { continuation in
                state.update { $0.queue.foretell(continuation, by: request) }
                // Without one more it goes on as if nothing had been foretold.
                try? addThread()
            }
            result = .success(page)
        } catch {
            result = .failure(error)
        }
        state.update { $0.queue.end(request, result) }
    }

    private func addThread() throws(SystemError) {
        let isWanted = state.inspect { state in
            guard state.threads < Self.threadLimit else { return false }
            state.threads += 1
            return true
        }
        guard isWanted else { return }
        do throws(SystemError) {
            try Thread.detached(name: "pages") { self.run() }
        } catch {
            state.inspect { $0.threads -= 1 }
            throw error
        }
    }

    private func run() {
        while true {
            let request = state.wait { state -> PageQueue.Request?? in
                if state.isAbandoned || state.queue.isOver { return .some(nil) }
                return state.queue.begin().map { .some($0) }
            }
            guard case .some(.some(let request)) = request else { return }
            perform(request)
        }
    }
}
