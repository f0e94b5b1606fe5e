// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import TestSupport
import Testing

@testable import Journal

/// The bytes of the close log.
@Suite struct CloseRecordTests {
    private static let nonce: UInt64 = 77

    private func record(_ serial: UInt64, _ random: inout SeededGenerator) -> CloseRecord {
        var extents = ExtentSet()
        for _ in 0..<Int.random(in: 0..<4, using: &random) {
            extents.insert(
                ByteRange(
                    offset: .random(in: 0..<1 << 40, using: &random),
                    count: .random(in: 1..<9999, using: &random)
                )
            )
        }
        func bytes(_ limit: Int) -> [UInt8] {
            (0..<Int.random(in: 0..<limit, using: &random)).map { _ in .random(in: 0...255, using: &random) }
        }
        return CloseRecord(
            serial: serial,
            node: NodeID(.random(in: 1 ... .max, using: &random)),
            generation: GenerationID(.random(in: 1 ... .max, using: &random)),
            path: ObjectKey(bytes: bytes(300)),
            mode: .random(in: 0 ... .max, using: &random),
            uid: .random(in: 0 ... .max, using: &random),
            gid: .random(in: 0 ... .max, using: &random),
            modified: Timestamp(nanoseconds: .random(in: .min ... .max, using: &random)),
            closedAt: Timestamp(nanoseconds: .random(in: .min ... .max, using: &random)),
            size: .random(in: 0 ... .max, using: &random),
            extents: extents,
            checksums: (0..<Int.random(in: 0..<3, using: &random)).map { row in
                CloseRecord.Checksums(row: Int64(row), covered: bytes(20), sums: bytes(40))
            }
        )
    }

    private func log(_ records: [CloseRecord]) throws -> [UInt8] {
        try records.flatMap { record -> [UInt8] in try #require(record.encoded(nonce: Self.nonce)) }
    }

    @Test func whatIsWrittenIsReadBack() throws {
        var random = SeededGenerator(seed: 1)
        for count in 0..<50 {
            let records = (0..<count).map { record(UInt64($0) + 5, &random) }
            let bytes = try log(records)
            let chain = CloseRecord.chain(bytes + [UInt8](repeating: 0, count: count))
            #expect(chain?.records ?? [] == records)
            #expect(count == 0 || chain?.nonce == Self.nonce && chain?.end == bytes.count)
        }
    }

    @Test func whatFollowsOfAnEarlierTimeDoesNotCount() throws {
        var random = SeededGenerator(seed: 2)
        let old = (1..<6).map { record($0, &random) }
        let new = (6..<8).map { record($0, &random) }
        let bytes = try log(old)
        let head = try log(new)
        #expect(CloseRecord.chain(head + bytes.dropFirst(head.count))?.records == new)
        // Nor does one with another nonce, though it has the next serial.
        let other = try #require(record(8, &random).encoded(nonce: 78))
        #expect(CloseRecord.chain(head + other)?.records == new)
    }

    @Test func aRecordThatIsTooLongIsNone() throws {
        var random = SeededGenerator(seed: 3)
        let short = record(1, &random)
        let long = CloseRecord(
            serial: 1,
            node: short.node,
            generation: short.generation,
            path: ObjectKey(bytes: [UInt8](repeating: 65, count: CloseRecord.limit)),
            mode: 0,
            uid: 0,
            gid: 0,
            modified: short.modified,
            closedAt: short.closedAt,
            size: 0,
            extents: ExtentSet(),
            checksums: []
        )
        #expect(long.encoded(nonce: Self.nonce) == nil)
    }

    /// Whatever becomes of its bytes, a log gives records that were written, in their order, and no other.
    @Test(arguments: Array(UInt64(1)...40)) func damageEndsTheRecordsAndNothingElse(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<200 {
            let records = (1..<UInt64.random(in: 2..<8, using: &random)).map { record($0, &random) }
            var bytes = try log(records)
            for _ in 0..<Int.random(in: 1..<4, using: &random) {
                let place = Int.random(in: 0..<max(1, bytes.count), using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes.removeLast(bytes.count - place)
                case 1 where place < bytes.count: bytes[place] = .random(in: 0...255, using: &random)
                case 2 where place < bytes.count: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                default: bytes.insert(.random(in: 0...255, using: &random), at: min(place, bytes.count))
                }
            }
            let read = CloseRecord.chain(bytes)?.records ?? []
            #expect(read == Array(records.prefix(read.count)), "seed \(seed)")
        }
        for _ in 0..<200 {
            let noise = (0..<Int.random(in: 0..<400, using: &random)).map { _ in UInt8.random(in: 0...3, using: &random)
            }
            #expect(CloseRecord.chain(noise)?.records.isEmpty ?? true, "seed \(seed)")
        }
    }
}
