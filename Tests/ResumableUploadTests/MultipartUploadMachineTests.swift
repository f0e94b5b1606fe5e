// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import ResumableUpload
import TestSupport
import Testing

/// Drives multipart machines against a simulated store: events in random order, faults, kills.
struct MultipartRun {
    typealias Machine = MultipartUploadMachine

    let content: [UInt8]
    var generator: SeededGenerator
    var faultPercent = 0
    var killPercent = 0
    /// How often the store drops all uploads, in percent of the steps.
    var amnesiaPercent = 0
    var base = UploadIntent.Foundation.absent
    var parallelism = 3
    /// The tag of a completed object is the MD5 of its content, as rclone's is.
    var givesTagsOfWholes = false
    /// What of the content the server copies from what it has.
    var composition: PartComposition?
    /// Copies are taken for something else: what is stored is not what was to be copied.
    var copiesWrongly = false
    /// The source of copies changed, in percent of them.
    var changePercent = 0
    private(set) var copies = 0

    var target: [UInt8]?
    var targetTag = ""
    private(set) var uploads: [String: [Int: [UInt8]]] = [:]
    private(set) var commits = 0
    private(set) var partBytes: Int64 = 0
    /// Bytes of parts that did not arrive.
    private(set) var lostBytes: Int64 = 0
    private(set) var mostRunning = 0
    private(set) var steps = 0
    private var created = 0
    private var journal: MultipartState?
    private let partSize: Int64 = 100

    init(content: [UInt8], seed: UInt64) {
        self.content = content
        generator = SeededGenerator(seed: seed)
    }

    private func tag(_ bytes: [UInt8]) -> String { "\"\(hexadecimal(fakeDigest(bytes)))\"" }
    private var found: ObjectVersion? {
        target.map { ObjectVersion(entityTag: EntityTag(opaque: targetTag), size: Int64($0.count)) }
    }

    private func machine() -> Machine {
        Machine(
            intent: UploadIntent(size: Int64(content.count), base: base),
            state: journal,
            partSize: partSize,
            composition: composition,
            parallelism: parallelism,
            md5: fakeDigest
        )
    }

    /// Runs to the end; nil when it does not come within 50,000 steps.
    mutating func run() -> Machine.Action? {
        var current = machine()
        var open = current.start()
        while steps < 50_000, !open.isEmpty {
            steps += 1
            if generator.chance(amnesiaPercent) { uploads = [:] }
            if generator.chance(killPercent) {
                current = machine()
                open = current.start()
            }
            let running = open.count {
                switch $0 {
                case .uploadPart, .copyPart: true
                default: false
                }
            }
            mostRunning = max(mostRunning, running)
            let action = open.remove(at: Int.random(in: 0..<open.count, using: &generator))
            switch action {
            case .done, .conflict, .failed, .cancelled:
                #expect(open.isEmpty, "something is outstanding at the end")
                return action
            case .journalPart(let part): journal?.parts.append(part)
            case .journal(let state):
                journal = state
                open += current.handle(.journalled)
            default: open += current.handle(perform(action))
            }
            // The journal is written before the machine goes on, as the driver must.
            for case .journalPart(let part) in open { journal?.parts.append(part) }
            open.removeAll {
                if case .journalPart = $0 { true } else { false }
            }
        }
        return nil
    }

    private mutating func perform(_ action: Machine.Action) -> Machine.Event {
        let isLost = generator.chance(faultPercent)
        let happens = !isLost || generator.chance(50)
        switch action {
        case .create:
            guard happens else { return lost }
            created += 1
            uploads["u\(created)"] = [:]
            return isLost ? lost : .created(uploadID: "u\(created)")
        case .listParts(let id):
            guard let parts = uploads[id] else { return .failed(.noSuchUpload, retryAfter: nil) }
            if isLost { return lost }
            return .listed(
                parts.map { Machine.Listed(number: $0.key, size: Int64($0.value.count), entityTag: tag($0.value)) }
            )
        case .digest(let number, let range): return .digested(number: number, md5: fakeDigest(bytes(range)))
        case .uploadPart(let id, let number, let range): return upload(id, number, range, isLost, happens)
        case .copyPart(let id, let number, let range): return copy(id, number, range, isLost, happens)
        case .complete(let id, let parts): return complete(id, parts, isLost, happens)
        case .verifyTarget: return isLost ? lost : .target(found, wholeTag: hexadecimal(fakeDigest(content)))
        case .abort(let id):
            uploads[id] = nil
            return .aborted
        case .wait: return .waited
        default: return lost
        }
    }

    private var lost: Machine.Event { .failed(.unreachable, retryAfter: nil) }
    private func bytes(_ range: ByteRange) -> [UInt8] { Array(content[Int(range.lower)..<Int(range.upper)]) }

    private mutating func upload(
        _ id: String,
        _ number: Int,
        _ range: ByteRange,
        _ isLost: Bool,
        _ happens: Bool
    ) -> Machine.Event {
        partBytes += range.count
        guard uploads[id] != nil else { return .partFailed(number: number, .noSuchUpload, retryAfter: nil) }
        let part = bytes(range)
        if happens { uploads[id]?[number] = part }
        if isLost {
            if !happens { lostBytes += range.count }
            return .partFailed(number: number, .unreachable, retryAfter: nil)
        }
        return .partUploaded(number: number, md5: fakeDigest(bytes(range)), entityTag: tag(bytes(range)))
    }

    private mutating func copy(
        _ id: String,
        _ number: Int,
        _ range: ByteRange,
        _ isLost: Bool,
        _ happens: Bool
    ) -> Machine.Event {
        copies += 1
        guard uploads[id] != nil else { return .partFailed(number: number, .noSuchUpload, retryAfter: nil) }
        if generator.chance(changePercent) {
            return .partFailed(number: number, .preconditionFailed, retryAfter: nil)
        }
        let part = copiesWrongly ? content : bytes(range)
        if happens { uploads[id]?[number] = part }
        if isLost { return .partFailed(number: number, .unreachable, retryAfter: nil) }
        return .partCopied(number: number, md5: fakeDigest(part), entityTag: tag(part))
    }

    private mutating func complete(
        _ id: String,
        _ parts: [MultipartState.Part],
        _ isLost: Bool,
        _ happens: Bool
    ) -> Machine.Event {
        guard let stored = uploads[id] else { return .failed(.noSuchUpload, retryAfter: nil) }
        guard happens else { return lost }
        if base == .absent, target != nil { return .failed(.preconditionFailed, retryAfter: nil) }
        #expect(parts.map(\.number) == Array(1...parts.count))
        for part in parts { #expect(stored[part.number].map(tag) == part.entityTag) }
        let content = parts.flatMap { stored[$0.number] ?? [] }
        target = content
        targetTag =
            givesTagsOfWholes
            ? hexadecimal(fakeDigest(content))
            : hexadecimal(fakeDigest(parts.flatMap { fakeDigest(stored[$0.number] ?? []) })) + "-\(parts.count)"
        uploads[id] = nil
        commits += 1
        guard !isLost, let found else { return lost }
        return .completed(found)
    }
}

@Suite struct MultipartUploadMachineTests {
    private func isDone(_ action: MultipartUploadMachine.Action?) -> Bool {
        if case .done = action { true } else { false }
    }

    @Test(arguments: [0, 1, 99, 100, 101, 1234])
    func aSmoothUploadSendsEveryByteOnce(size: Int64) {
        var run = MultipartRun(content: pattern(size), seed: 1)
        #expect(isDone(run.run()))
        #expect(run.target == run.content)
        #expect(run.partBytes == size)
        #expect(run.mostRunning <= run.parallelism)
        #expect(run.uploads.isEmpty)
    }

    @Test func aLossyNetworkCostsAtMostTheLostParts() {
        for seed in UInt64(1)...300 {
            var run = MultipartRun(content: pattern(1550), seed: seed)
            run.faultPercent = 30
            let result = run.run()
            #expect(isDone(result), "seed \(seed): \(String(describing: result))")
            #expect(run.target == run.content, "seed \(seed)")
            #expect(run.commits == 1, "seed \(seed)")
            #expect(run.partBytes == 1550 + run.lostBytes, "seed \(seed)")
        }
    }

    @Test(arguments: [false, true])
    func killsAreSurvivedWithEveryPartThatArrived(givesTagsOfWholes: Bool) {
        for seed in UInt64(1)...300 {
            var run = MultipartRun(content: pattern(1550), seed: seed)
            run.givesTagsOfWholes = givesTagsOfWholes
            run.faultPercent = 10
            run.killPercent = 8
            let result = run.run()
            #expect(isDone(result), "seed \(seed): \(String(describing: result))")
            #expect(run.target == run.content, "seed \(seed)")
            #expect(run.commits == 1, "seed \(seed)")
        }
    }

    @Test func aForgottenUploadIsBegunAnew() {
        for seed in UInt64(1)...200 {
            var run = MultipartRun(content: pattern(900), seed: seed)
            run.faultPercent = 10
            run.amnesiaPercent = 2
            let result = run.run()
            if result == .failed(.noSuchUpload) { continue }
            #expect(isDone(result), "seed \(seed): \(String(describing: result))")
            #expect(run.target == run.content, "seed \(seed)")
            #expect(run.commits == 1, "seed \(seed)")
        }
    }

    @Test func foreignContentIsAConflictAndNothingIsLeftBehind() {
        for seed in UInt64(1)...50 {
            var run = MultipartRun(content: pattern(500), seed: seed)
            run.target = pattern(9)
            run.targetTag = String(repeating: "f", count: 32)
            run.faultPercent = seed % 2 == 0 ? 20 : 0
            let result = run.run()
            guard case .conflict(let found) = result else {
                Issue.record("seed \(seed): \(String(describing: result))")
                continue
            }
            #expect(found?.size == 9)
            #expect(run.target == pattern(9))
        }
    }

    @Test func aVersionThatTookOurPlaceBeforeItWasLookedAtIsNotTakenForOurs() {
        var machine = MultipartUploadMachine(
            intent: UploadIntent(size: 10, base: .absent),
            partSize: 100,
            parallelism: 1,
            md5: fakeDigest
        )
        _ = machine.start()
        _ = machine.handle(.created(uploadID: "u"))
        _ = machine.handle(.journalled)
        _ = machine.handle(.partUploaded(number: 1, md5: fakeDigest([1]), entityTag: "t"))
        let foreign = ObjectVersion(entityTag: EntityTag(opaque: "f"), size: 11)
        var actions = machine.handle(.completed(foreign))
        if case .abort? = actions.first { actions = machine.handle(.aborted) }
        #expect(actions == [.conflict(foreign)])
    }

    @Test func partSizesStayWithinTheLimits() {
        #expect(PartLayout.partSize(for: 0) == 8 << 20)
        #expect(PartLayout.partSize(for: 72_000 << 20) == 8 << 20)
        #expect(PartLayout.partSize(for: (72_000 << 20) + 1) == 9 << 20)
        for size: Int64 in [1, 5 << 40, 48 << 40] {
            let layout = PartLayout(size: size, partSize: PartLayout.partSize(for: size))
            #expect(layout.count <= 9000)
            #expect(layout.range(layout.count).upper == size)
            #expect(layout.partSize % (1 << 20) == 0)
        }
        #expect(PartLayout(size: 0, partSize: 5).count == 1)
    }

    @Test func cancellingWaitsForRunningPartsAndAborts() {
        var machine = MultipartUploadMachine(
            intent: UploadIntent(size: 20 << 20, base: .absent),
            parallelism: 2,
            md5: fakeDigest
        )
        #expect(machine.start() == [.create])
        _ = machine.handle(.created(uploadID: "u"))
        #expect(machine.handle(.journalled).count == 1)
        #expect(machine.handle(.partUploaded(number: 1, md5: [], entityTag: "t")).count == 3)
        #expect(machine.cancel() == [])
        #expect(machine.handle(.partFailed(number: 2, .cancelled, retryAfter: nil)) == [])
        #expect(machine.handle(.partFailed(number: 3, .cancelled, retryAfter: nil)) == [.abort(uploadID: "u")])
        #expect(machine.handle(.aborted) == [.cancelled])
    }

    @Test func aFailureLeavesTheUploadForALaterTry() {
        var machine = MultipartUploadMachine(
            intent: UploadIntent(size: 20 << 20, base: .absent),
            parallelism: 1,
            md5: fakeDigest
        )
        _ = machine.start()
        _ = machine.handle(.created(uploadID: "u"))
        _ = machine.handle(.journalled)
        #expect(machine.handle(.partFailed(number: 1, .noSpace, retryAfter: nil)) == [.failed(.noSpace)])
        #expect(machine.state?.uploadID == "u")
    }

    @Test func aSecondPauseDoesNotWaitTwice() {
        var machine = MultipartUploadMachine(
            intent: UploadIntent(size: 40 << 20, base: .absent),
            parallelism: 3,
            md5: fakeDigest
        )
        _ = machine.start()
        _ = machine.handle(.created(uploadID: "u"))
        _ = machine.handle(.journalled)
        for number in 1...2 { _ = machine.handle(.partUploaded(number: number, md5: [], entityTag: "t")) }
        let first = machine.handle(.partFailed(number: 3, .temporary, retryAfter: 3))
        #expect(first == [.wait(TransferPause(.temporary, retryAfter: 3))])
        #expect(machine.handle(.partFailed(number: 4, .temporary, retryAfter: nil)) == [])
        // What the lost answers were about is looked for once the third part is over.
        #expect(machine.handle(.waited) == [])
        let third = machine.handle(.partUploaded(number: 5, md5: [], entityTag: "t"))
        #expect(third.last == .listParts(uploadID: "u"))
    }
}
