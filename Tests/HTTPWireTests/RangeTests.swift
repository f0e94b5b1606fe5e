// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import HTTPWire
import TestSupport
import Testing

@Suite struct RangeTests {
    @Test(arguments: [
        ("bytes=0-499", 1000, RangeField.Resolution.partial(ByteRange(0, 500))),
        ("bytes=500-", 1000, .partial(ByteRange(500, 1000))),
        ("bytes=-200", 1000, .partial(ByteRange(800, 1000))),
        ("bytes=-2000", 1000, .partial(ByteRange(0, 1000))),
        ("bytes=0-99999", 1000, .partial(ByteRange(0, 1000))),
        ("BYTES= 0-0 ", 1, .partial(ByteRange(0, 1))),
        ("bytes=999-999", 1000, .partial(ByteRange(999, 1000))),
        ("bytes=1000-", 1000, .unsatisfiable),
        ("bytes=0-0", 0, .unsatisfiable),
        ("bytes=-0", 10, .unsatisfiable),
        ("bytes=-5", 0, .unsatisfiable),
        ("bytes=0-1,3-4", 10, .whole),
        ("bytes=5-9223372036854775807", 10, .partial(ByteRange(5, 10))),
        ("bytes=9999999999999999999-", 10, .unsatisfiable),
        ("bytes=-99999999999999999999999", 10, .partial(ByteRange(0, 10))),
    ])
    func rangesResolveAgainstTheSize(field: String, size: Int64, expected: RangeField.Resolution) {
        #expect(RangeField(field)?.resolve(size: size) == expected)
    }

    @Test(arguments: [
        "bytes=9-2", "bytes=", "bytes", "items=0-1", "bytes=a-b", "bytes=-", "bytes=+1-2", "bytes=1--2", "bytes=0x1-2",
        "bytes=999999999999999999x-", "bytes 0-1", "bytes=0-1,9-2",
    ])
    func malformedRangesAreIgnored(field: String) {
        #expect(RangeField(field) == nil)
    }

    @Test func tooManyRangesAreIgnored() {
        let many = "bytes=" + Array(repeating: "0-1", count: 65).joined(separator: ",")
        #expect(RangeField(many) == nil)
    }

    @Test func ourRangesReadBack() {
        let range = ByteRange(17, 4711)
        #expect(RangeField.value(for: range) == "bytes=17-4710")
        #expect(RangeField(RangeField.value(for: range))?.resolve(size: 1 << 40) == .partial(range))
    }

    @Test(
        arguments: [
            ("bytes 0-499/1234", ByteRange(0, 500), 1234), ("bytes 42-1233/*", ByteRange(42, 1234), nil),
            ("bytes */1234", nil, 1234), ("Bytes 0-0/1", ByteRange(0, 1), 1),
        ] as [(String, ByteRange?, Int64?)]
    )
    func contentRangesReadAndWrite(field: String, range: ByteRange?, complete: Int64?) throws {
        let value = try #require(ContentRange(field))
        #expect(value.range == range)
        #expect(value.completeLength == complete)
        #expect(ContentRange(value.fieldValue) == value)
    }

    @Test(arguments: [
        "bytes */*", "bytes 5-4/10", "bytes 0-10/10", "bytes 0-9", "items 0-9/10", "bytes=0-9/10", "bytes 0-9/x", "",
        "bytes -1-9/10", "bytes 0-9/10/11", "bytes 0-9/-1",
    ])
    func malformedContentRangesAreRefused(field: String) {
        #expect(ContentRange(field) == nil)
    }

    @Test func mutatedFieldsNeverYieldImpossibleRanges() {
        var random = SeededGenerator(seed: 20_261_120)
        let seeds = ["bytes=0-499", "bytes=500-", "bytes=-200,1-2", "bytes 0-499/1234", "bytes */77", "bytes 1-9/*"]
        for round in 0..<20_000 {
            var bytes = Array(seeds[round % seeds.count].utf8)
            for _ in 0...Int.random(in: 0..<4, using: &random) {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[index] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.insert(UInt8.random(in: 0x20...0x7E, using: &random), at: index)
                default: if bytes.count > 1 { bytes.remove(at: index) }
                }
            }
            let text = String(decoding: bytes, as: UTF8.self)
            if case .partial(let range) = RangeField(text)?.resolve(size: 1000) {
                #expect(!range.isEmpty && range.upper <= 1000, "seed \(random.seed), round \(round): \(text)")
            }
            if let value = ContentRange(text), let range = value.range, let complete = value.completeLength {
                #expect(range.upper <= complete, "seed \(random.seed), round \(round): \(text)")
            }
        }
    }
}
