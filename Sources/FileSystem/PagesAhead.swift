// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import ObjectStore
internal import Platform

/// The pages of a listing, each asked for while the one before it is worked on.
final class PagesAhead: Sendable {
    private struct State {
        var ready: [ListingPage] = []
        var hasBegun = false
        var isEnded = false
        var isAbandoned = false
        var failure: StoreError?
        var progress = ListingProgress()
    }

    typealias Fetch = @Sendable (_ continuation: String?) throws(StoreError) -> ListingPage

    /// How many pages wait for the one who works on them.
    private static let depth = 2
    private let fetch: Fetch
    private let state = Monitor(State())

    init(_ fetch: @escaping Fetch) {
        self.fetch = fetch
    }

    /// The next page; nil behind the last.
    ///
    /// Only one thread may ask.
    func next() throws(StoreError) -> ListingPage? {
        if state.inspect({ state in
            defer { state.hasBegun = true }
            return !state.hasBegun
        }) {
            return try first()
        }
        let result = state.waitUnlessInterrupted { state -> Result<ListingPage?, StoreError>? in
            if !state.ready.isEmpty { return .success(state.ready.removeFirst()) }
            if let failure = state.failure { return .failure(failure) }
            if state.isAbandoned { return .failure(StoreError(.cancelled, "the listing was given up")) }
            return state.isEnded ? .success(nil) : nil
        }
        guard let result else { throw StoreError(.cancelled, "the request was given up") }
        // Room for one more.
        state.update { _ in }
        return try result.get()
    }

    /// Nobody asks any more.
    func abandon() { state.update { $0.isAbandoned = true } }

    /// Most listings have one page and need no thread.
    private func first() throws(StoreError) -> ListingPage {
        let page = try checked(fetch(nil))
        guard let next = page.next else {
            state.update { $0.isEnded = true }
            return page
        }
        do throws(SystemError) {
            try Thread.detached(name: "pages") { self.run(from: next) }
        } catch {
            throw StoreError(.temporary, "\(error)")
        }
        return page
    }

    private func run(from token: String) {
        var token: String? = token
        do throws(StoreError) {
            while let continuation = token {
                let isWanted = state.wait { state -> Bool? in
                    state.isAbandoned ? false : state.ready.count < Self.depth ? true : nil
                }
                guard isWanted == true else { return }
                let page = try checked(fetch(continuation))
                token = page.next
                state.update { $0.ready.append(page) }
            }
            state.update { $0.isEnded = true }
        } catch {
            state.update { $0.failure = error }
        }
    }

    private func checked(_ page: ListingPage) throws(StoreError) -> ListingPage {
        let leadsOn = state.inspect { $0.progress.leadsOn(page) }
        guard leadsOn else { throw StoreError(.protocolViolation, "the listing does not go on") }
        return page
    }
}
