// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import ResumableUpload
import TestSupport
import Testing

@Suite struct PartCompositionTests {
    private static let mebibyte: Int64 = 1 << 20
    private let partSize = 8 * mebibyte

    private func plan(_ size: Int64, _ remote: [ByteRange]) -> PartComposition? {
        PartComposition.plan(size: size, remote: remote, partSize: partSize)
    }

    /// What S3 asks of parts, and that nothing is copied that the server does not have.
    private func check(_ plan: PartComposition, _ size: Int64, _ remote: [ByteRange], _ comment: Comment) {
        #expect(plan.pieces.count <= 10_000, comment)
        var position: Int64 = 0
        for (index, piece) in plan.pieces.enumerated() {
            #expect(piece.range.lower == position && !piece.range.isEmpty, comment)
            position = piece.range.upper
            #expect(piece.range.count <= 5 << 30, comment)
            if index < plan.pieces.count - 1 { #expect(piece.range.count >= 5 * Self.mebibyte, comment) }
            if piece.isCopied { #expect(remote.contains { $0.contains(piece.range) }, comment) }
        }
        #expect(position == size, comment)
        #expect(PartComposition(encoded: plan.encoded, size: size) == plan, comment)
    }

    @Test func anEditInTheMiddleSendsOnePartOfTheSmallestSize() throws {
        let size: Int64 = 1 << 30
        let remote = [ByteRange(0, 500_000_000), ByteRange(500_000_010, size)]
        let plan = try #require(self.plan(size, remote))
        check(plan, size, remote, "an edit")
        #expect(plan.sentRanges == [ByteRange(500_000_000, 500_000_000 + 5 * Self.mebibyte)])
    }

    @Test func anAppendSendsWhatWasAppended() throws {
        let remote = [ByteRange(0, 1 << 30)]
        let size = (1 << 30) + Self.mebibyte
        let plan = try #require(self.plan(size, remote))
        check(plan, size, remote, "an append")
        #expect(plan.sentRanges == [ByteRange(1 << 30, size)])
    }

    @Test func aChangeAtTheVeryBeginningSendsTheSmallestPartAndTheRestIsCopied() throws {
        let plan = try #require(self.plan(100 * Self.mebibyte, [ByteRange(1, 100 * Self.mebibyte)]))
        #expect(plan.sentRanges == [ByteRange(0, 5 * Self.mebibyte)])
    }

    @Test func littleThatIsLeftIsNotWorthIt() {
        #expect(plan(100 * Self.mebibyte, []) == nil)
        #expect(plan(100 * Self.mebibyte, [ByteRange(0, 7 * Self.mebibyte)]) == nil)
        #expect(plan(Self.mebibyte, [ByteRange(10, Self.mebibyte)]) == nil)
    }

    @Test func nothingChangedIsCopiedWholeInPartsThatAreAllowed() throws {
        let size: Int64 = 5 << 40
        let plan = try #require(self.plan(size, [ByteRange(0, size)]))
        check(plan, size, [ByteRange(0, size)], "5 TiB")
        #expect(plan.sentRanges.isEmpty)
    }

    @Test func manyHolesInALargeObjectStayWithinTheNumberOfParts() throws {
        let step = 64 * Self.mebibyte
        let remote = (0..<8000).map { ByteRange($0 * step, $0 * step + step - 10) }
        let plan = PartComposition.plan(size: 8000 * step, remote: remote, partSize: 64 << 20)
        // As a whole: a macro would print the ranges.
        guard let plan else { return #expect(Bool(false), "nothing is copied") }
        check(plan, 8000 * step, remote, "8,000 holes")
    }

    @Test func anyRangesMakePartsThatAreAllowed() {
        let seed = UInt64.random(in: 0 ... .max)
        print("seed \(seed)")
        var generator = SeededGenerator(seed: seed)
        for round in 0..<2000 {
            let size = Int64.random(in: 1...(200 << 20), using: &generator)
            var remote: [ByteRange] = []
            var position: Int64 = 0
            while position < size, remote.count < 30 {
                let lower = position + Int64.random(in: 1...(20 << 20), using: &generator)
                let upper = lower + Int64.random(in: 1...(60 << 20), using: &generator)
                guard lower < size else { break }
                remote.append(ByteRange(lower, min(size, upper)))
                position = min(size, upper)
            }
            if generator.chance(30), let first = remote.first { remote[0] = ByteRange(0, first.upper) }
            let partSize = Int64.random(in: 5...64, using: &generator) << 20
            guard let plan = PartComposition.plan(size: size, remote: remote, partSize: partSize) else { continue }
            check(plan, size, remote, "seed \(seed) round \(round)")
        }
    }

    @Test func damagedRecordsAreNoCompositions() throws {
        let plan = try #require(self.plan(1 << 30, [ByteRange(0, 1 << 29)]))
        let bytes = plan.encoded
        #expect(PartComposition(encoded: bytes, size: (1 << 30) + 1) == nil)
        #expect(PartComposition(encoded: bytes.dropLast(), size: 1 << 30) == nil)
        #expect(PartComposition(encoded: [], size: 0) == nil)
        #expect(PartComposition(encoded: [0], size: 0) == nil)
        #expect(PartComposition(encoded: Array(repeating: 0xFF, count: 20), size: 1 << 30) == nil)
    }
}

@Suite struct CompositionMachineTests {
    private func run(seed: UInt64) -> MultipartRun {
        var run = MultipartRun(content: pattern(1000), seed: seed)
        run.base = .anything
        run.composition = PartComposition(pieces: [
            .init(ByteRange(0, 300), isCopied: true), .init(ByteRange(300, 350), isCopied: false),
            .init(ByteRange(350, 420), isCopied: false), .init(ByteRange(420, 1000), isCopied: true),
        ])
        return run
    }

    private func isDone(_ action: MultipartUploadMachine.Action?) -> Bool {
        if case .done = action { true } else { false }
    }

    @Test func whatTheServerHasIsCopiedAndTheRestSentOnce() {
        var run = run(seed: 1)
        #expect(isDone(run.run()))
        #expect(run.target == run.content)
        #expect(run.partBytes == 120 && run.copies == 2)
    }

    @Test func lossesAndKillsEndInTheWholeContent() {
        for seed in UInt64(1)...300 {
            var run = run(seed: seed)
            run.faultPercent = 15
            run.killPercent = 8
            let result = run.run()
            #expect(isDone(result), "seed \(seed): \(String(describing: result))")
            #expect(run.target == run.content, "seed \(seed)")
        }
    }

    @Test func aServerThatCopiesSomethingElseNeverCompletes() {
        for seed in UInt64(1)...20 {
            var run = run(seed: seed)
            run.copiesWrongly = true
            #expect(run.run() == .failed(.unsupported), "seed \(seed)")
            #expect(run.commits == 0 && run.target == nil, "seed \(seed)")
        }
    }

    @Test func aSourceThatChangedEndsTheUploadAtTheServer() {
        for seed in UInt64(1)...20 {
            var run = run(seed: seed)
            run.changePercent = 100
            #expect(run.run() == .failed(.preconditionFailed), "seed \(seed)")
            #expect(run.commits == 0 && run.uploads.isEmpty, "seed \(seed)")
        }
    }
}
