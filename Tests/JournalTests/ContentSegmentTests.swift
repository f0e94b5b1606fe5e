// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Journal
import TestSupport
import Testing

@Suite struct ContentSegmentTests {
    private let version = ObjectVersion.tagged("v", 100)

    private func generation(_ id: Int64, _ content: ContentMap, _ underlay: Underlay) -> Generation {
        Generation(
            id: GenerationID(id),
            content: content,
            underlay: underlay,
            isSealed: true,
            isSynced: false,
            revision: 0
        )
    }

    private func extents(_ ranges: [(Int64, Int64)]) -> ExtentSet {
        var set = ExtentSet()
        for range in ranges { set.insert(ByteRange(range.0, range.1)) }
        return set
    }

    @Test func stagingIsOverTheUnderlayAndZerosAreBehindIt() throws {
        let content = ContentMap(size: 100, extents: extents([(10, 20), (70, 80)]), underlayLength: 50)
        let top = generation(2, content, .remote("k", version))
        let segments = try ContentSegment.resolve(ByteRange(0, 200), in: top) { _ in nil }
        #expect(
            segments == [
                ContentSegment(range: ByteRange(0, 10), source: .remote("k", version)),
                ContentSegment(range: ByteRange(10, 20), source: .staging(GenerationID(2))),
                ContentSegment(range: ByteRange(20, 50), source: .remote("k", version)),
                ContentSegment(range: ByteRange(50, 70), source: .zeros),
                ContentSegment(range: ByteRange(70, 80), source: .staging(GenerationID(2))),
                ContentSegment(range: ByteRange(80, 100), source: .zeros),
            ]
        )
    }

    @Test func anUnderlayThatIsGoneIsNeverReadAsZeros() {
        let top = generation(2, ContentMap(size: 10, underlayLength: 10), .generation(GenerationID(1)))
        let error = #expect(throws: JournalError.self) {
            _ = try ContentSegment.resolve(ByteRange(0, 10), in: top) { _ in nil }
        }
        #expect(error?.kind == .notFound)
    }

    @Test func aGenerationCannotShowANewerOne() {
        let top = generation(2, ContentMap(size: 10, underlayLength: 10), .generation(GenerationID(2)))
        #expect(throws: JournalError.self) {
            _ = try ContentSegment.resolve(ByteRange(0, 10), in: top) { _ in top }
        }
    }

    /// Chains of random generations against an array in which every byte knows where it is.
    @Test(arguments: [UInt64(1), 2, 3, 4]) func chainsResolveToTheByte(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<250 {
            var chain: [GenerationID: Generation] = [:]
            var bytes = (0..<100).map { _ in ContentSegment.Source.remote("k", version) }
            var underlay = Underlay.remote("k", version)
            for id in 1...Int64(1 + random.below(4)) {
                var content = ContentMap(size: Int64(bytes.count), underlayLength: Int64(bytes.count))
                for _ in 0..<random.below(6) { change(&content, &bytes, GenerationID(id), &random) }
                chain[GenerationID(id)] = generation(id, content, underlay)
                underlay = .generation(GenerationID(id))
            }
            guard case .generation(let last) = underlay else { continue }
            let top = try #require(chain[last])
            let lower = Int64(random.below(120))
            let range = ByteRange(lower, lower + Int64(random.below(120)))
            let segments = try ContentSegment.resolve(range, in: top) { chain[$0] }
            var position = range.lower
            for segment in segments {
                #expect(segment.range.lower == position && !segment.range.isEmpty, "seed \(seed)")
                for offset in segment.range.lower..<segment.range.upper {
                    #expect(bytes[Int(offset)] == segment.source, "seed \(seed), byte \(offset)")
                }
                position = segment.range.upper
            }
            #expect(position == max(range.lower, min(range.upper, top.size)), "seed \(seed)")
            for (left, right) in zip(segments, segments.dropFirst()) { #expect(left.source != right.source) }
        }
    }

    private func change(
        _ content: inout ContentMap,
        _ bytes: inout [ContentSegment.Source],
        _ id: GenerationID,
        _ random: inout SeededGenerator
    ) {
        if random.chance(70) {
            let start = random.below(bytes.count + 20)
            let end = start + 1 + random.below(20)
            content.write(ByteRange(Int64(start), Int64(end)))
            while bytes.count < end { bytes.append(.zeros) }
            for offset in start..<end { bytes[offset] = .staging(id) }
        } else {
            let size = random.below(bytes.count + 20)
            content.truncate(to: Int64(size))
            bytes = Array(bytes.prefix(size))
            while bytes.count < size { bytes.append(.zeros) }
        }
    }
}
