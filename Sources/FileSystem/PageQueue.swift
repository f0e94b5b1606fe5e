// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import ObjectStore

/// Which pages of a listing are to be asked for, and which have come: in their order, and few at a time.
///
/// What to pass for a page may be foretold while the page before it is still being read; it counts when that page says
/// the same. Otherwise what was asked for too early is dropped.
struct PageQueue {
    /// One page to ask for.
    struct Request: Hashable, Sendable {
        let index: Int
        let continuation: String?
    }

    /// Why there are no more pages.
    enum End: Hashable {
        case last
        case failure(StoreError)
    }

    /// How many pages may be asked for that nobody has taken.
    static let depth = 2
    private var wanted: Request? = Request(index: 0, continuation: nil)
    private var underWay: [Request] = []
    private var early: [Request: Result<ListingPage, StoreError>] = [:]
    private var ready: [ListingPage] = []
    private var end: End?
    /// How many pages have been taken, and how many have come in order.
    private var taken = 0
    private var accepted = 0
    private var progress = ListingProgress()

    /// What is behind the pages that are ready, once that is known.
    var outcome: End? { ready.isEmpty ? end : nil }
    var isOver: Bool { end != nil }

    /// The next request, for the one who makes it; nil while there is none.
    mutating func begin() -> Request? {
        guard let request = wanted, request.index < taken + Self.depth else { return nil }
        wanted = nil
        underWay.append(request)
        return request
    }

    /// The page of a request will probably say that this leads to the next one.
    mutating func foretell(_ continuation: String, by request: Request) {
        guard underWay.contains(request), wanted == nil, !isBegun(request.index + 1) else { return }
        wanted = Request(index: request.index + 1, continuation: continuation)
    }

    private func isBegun(_ index: Int) -> Bool {
        underWay.contains { $0.index == index } || early.keys.contains { $0.index == index }
    }

    /// What a request came to; of one that was dropped it counts for nothing.
    mutating func end(_ request: Request, _ result: Result<ListingPage, StoreError>) {
        guard let place = underWay.firstIndex(of: request) else { return }
        underWay.remove(at: place)
        early[request] = result
        while end == nil, let (request, result) = early.first(where: { $0.key.index == accepted }) {
            early[request] = nil
            accept(result)
        }
    }

    private mutating func accept(_ result: Result<ListingPage, StoreError>) {
        do throws(StoreError) {
            let page = try result.get()
            guard progress.leadsOn(page) else {
                throw StoreError(.protocolViolation, "the listing does not go on")
            }
            accepted += 1
            ready.append(page)
            if let next = page.next { go(on: next) } else { finish(.last) }
        } catch {
            finish(.failure(error))
        }
    }

    /// The page that came last leads to this one: whatever else was asked for in its place is dropped.
    private mutating func go(on continuation: String) {
        let next = Request(index: accepted, continuation: continuation)
        if wanted == next || underWay.contains(next) || early[next] != nil { return }
        drop()
        wanted = next
    }

    private mutating func finish(_ end: End) {
        self.end = end
        drop()
    }

    private mutating func drop() {
        wanted = nil
        underWay = []
        early = [:]
    }

    /// The next page, for the one who works on it; nil while there is none.
    mutating func take() -> ListingPage? {
        guard !ready.isEmpty else { return nil }
        taken += 1
        return ready.removeFirst()
    }
}
