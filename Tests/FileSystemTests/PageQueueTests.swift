// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import ObjectStore
import TestSupport
import Testing

@testable import FileSystem

@Suite struct PageQueueTests {
    private typealias Request = PageQueue.Request

    /// The page at a place, with an entry named after it.
    private func page(_ index: Int, next: String?) -> ListingPage {
        let version = ObjectVersion(entityTag: nil, size: Int64(index))
        return ListingPage(entries: [.init(key: ObjectKey("k\(index)"), version: version)], folders: [], next: next)
    }

    private func size(_ page: ListingPage?) -> Int64? { page?.entries.first?.version.size }

    private func begin(_ queue: inout PageQueue) throws -> Request {
        let request = queue.begin()
        return try #require(request)
    }

    @Test func aForetoldPageIsAskedForWhileTheOneBeforeIsRead() throws {
        var queue = PageQueue()
        let first = try begin(&queue)
        #expect(first == Request(index: 0, continuation: nil))
        #expect(queue.begin() == nil)
        queue.foretell("a", by: first)
        queue.foretell("b", by: first)
        let second = try begin(&queue)
        #expect(second == Request(index: 1, continuation: "a"))
        // It comes earlier, and counts later.
        queue.end(second, .success(page(1, next: nil)))
        #expect(queue.take() == nil && !queue.isOver)
        queue.end(first, .success(page(0, next: "a")))
        #expect(size(queue.take()) == 0)
        #expect(size(queue.take()) == 1)
        #expect(queue.outcome == .last)
    }

    @Test func whatWasForetoldWronglyCountsForNothing() throws {
        for comesEarly in [true, false] {
            var queue = PageQueue()
            let first = try begin(&queue)
            queue.foretell("wrong", by: first)
            let wrong = try begin(&queue)
            if comesEarly { queue.end(wrong, .failure(StoreError(.unreachable, "wrong"))) }
            queue.end(first, .success(page(0, next: "right")))
            let right = try begin(&queue)
            #expect(right == Request(index: 1, continuation: "right"))
            queue.foretell("wronger", by: wrong)
            queue.end(wrong, .success(page(7, next: nil)))
            #expect(queue.begin() == nil && !queue.isOver)
            queue.end(right, .success(page(1, next: nil)))
            #expect([size(queue.take()), size(queue.take()), size(queue.take())] == [0, 1, nil])
            #expect(queue.outcome == .last)
        }
    }

    @Test func afterTheLastPageNothingIsAskedFor() throws {
        var queue = PageQueue()
        let first = try begin(&queue)
        queue.foretell("more", by: first)
        queue.end(first, .success(page(0, next: nil)))
        #expect(queue.begin() == nil && queue.isOver)
        #expect(queue.outcome == nil)
        #expect(size(queue.take()) == 0)
        #expect(queue.outcome == .last)
    }

    @Test func aFailureCountsInItsTurn() throws {
        var queue = PageQueue()
        let first = try begin(&queue)
        queue.foretell("a", by: first)
        let second = try begin(&queue)
        queue.end(second, .failure(StoreError(.unreachable, "gone")))
        #expect(!queue.isOver)
        queue.end(first, .success(page(0, next: "a")))
        #expect(size(queue.take()) == 0)
        #expect(queue.outcome == .failure(StoreError(.unreachable, "gone")))
    }

    @Test func pagesThatDoNotLeadOnEndIt() throws {
        var queue = PageQueue()
        for index in 0..<2 {
            let request = try begin(&queue)
            queue.end(request, .success(page(index, next: "a")))
            #expect(size(queue.take()) == (index == 0 ? 0 : nil))
        }
        guard case .failure(let error) = queue.outcome else { throw error("no failure") }
        #expect(error.cause == .protocolViolation)
    }

    private func error(_ text: String) -> StoreError { StoreError(.temporary, text) }

    /// Whatever is foretold, and in whatever order answers come: every page once, in order, and few at a time.
    @Test(arguments: 0..<200 as Range<UInt64>)
    func pagesComeInOrder(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var queue = PageQueue()
        let count = Int.random(in: 1...12, using: &random)
        var (underWay, found, steps) = ([Request](), [Int64](), 0)
        while queue.outcome == nil {
            steps += 1
            try #require(steps < 10_000, "it does not come to an end")
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                if let request = queue.begin() { underWay.append(request) }
                let isNear = underWay.allSatisfy { $0.index < found.count + PageQueue.depth }
                #expect(isNear)
            case 1:
                guard let request = underWay.randomElement(using: &random) else { continue }
                let isRight = Bool.random(using: &random) && request.index + 1 < count
                queue.foretell(isRight ? "t\(request.index + 1)" : "wrong\(steps)", by: request)
            case 2:
                guard let request = underWay.randomElement(using: &random) else { continue }
                underWay.removeAll { $0 == request }
                let isRight = request.continuation == (request.index == 0 ? nil : "t\(request.index)")
                let next = request.index + 1 < count ? "t\(request.index + 1)" : nil
                let wrong = page(99, next: Bool.random(using: &random) ? "elsewhere" : nil)
                queue.end(request, .success(isRight ? page(request.index, next: next) : wrong))
            default:
                if let page = queue.take() { found.append(page.entries[0].version.size) }
            }
        }
        #expect(found == (0..<count).map { Int64($0) })
        #expect(queue.outcome == .last)
    }
}
