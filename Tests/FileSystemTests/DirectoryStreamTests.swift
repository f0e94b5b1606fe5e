// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Testing

@testable import FileSystem

/// What is known of the names of a folder while others change what it rests on.
@Suite struct DirectoryStreamTests {
    private static let before = ListingGround(epoch: 1, journal: 1)
    private static let after = ListingGround(epoch: 1, journal: 2)

    private func stream() -> DirectoryStream {
        DirectoryStream(.root, rows: [], ground: Self.before, source: .listing)
    }

    private func append(_ range: Range<Int>, to stream: DirectoryStream, on ground: ListingGround) {
        stream.append(range.map { .init(name: ObjectKey("f\($0)"), type: 0, presence: .absent) }, on: ground)
    }

    private func known(_ stream: DirectoryStream, _ range: Range<Int>, on ground: ListingGround) -> [Int] {
        range.filter { stream.isKnown($0, on: ground) }
    }

    @Test func whatComesAfterAChangeIsKnownWhenItsTurnComes() {
        let stream = stream()
        append(0..<10, to: stream, on: Self.before)
        append(10..<20, to: stream, on: Self.after)
        #expect(known(stream, 0..<20, on: Self.before) == Array(0..<10))
        #expect(known(stream, 0..<20, on: Self.after) == Array(10..<20))
        // Who reads looks again at those of before, and at no others.
        stream.know(Array(repeating: .absent, count: 7), from: 3, on: Self.after)
        #expect(known(stream, 0..<20, on: Self.after) == Array(3..<20))
        append(20..<30, to: stream, on: Self.after)
        #expect(known(stream, 0..<30, on: Self.after) == Array(3..<30))
    }

    @Test func aLookAtSomeInTheMiddleLosesNoneBehindThem() {
        let stream = stream()
        append(0..<30, to: stream, on: Self.before)
        stream.know(Array(repeating: .absent, count: 10), from: 10, on: Self.after)
        #expect(known(stream, 0..<30, on: Self.before) == Array(0..<10) + Array(20..<30))
        #expect(known(stream, 0..<30, on: Self.after) == Array(10..<20))
    }

    /// What is known is one piece, and bounded.
    @Test func whatIsTooFarAheadIsLookedAtWhenItsTurnComes() {
        let stream = stream()
        for page in 0..<20 { append(page * 1000..<(page + 1) * 1000, to: stream, on: Self.before) }
        let count = known(stream, 0..<20_000, on: Self.before).count
        #expect(count == 9000)
        #expect(known(stream, 0..<count, on: Self.before).count == count)
        _ = stream.items(from: 0, count: 15_000, on: Self.before)
        stream.know(Array(repeating: .absent, count: 512), from: 15_000, on: Self.before)
        #expect(known(stream, 0..<20_000, on: Self.before) == Array(15_000..<15_512))
        // Read to where more comes, it is one piece with that again.
        stream.know(Array(repeating: .absent, count: 500), from: 19_500, on: Self.before)
        _ = stream.items(from: 19_500, count: 500, on: Self.before)
        append(20_000..<21_000, to: stream, on: Self.before)
        #expect(known(stream, 0..<21_000, on: Self.before) == Array(19_500..<21_000))
    }
}
