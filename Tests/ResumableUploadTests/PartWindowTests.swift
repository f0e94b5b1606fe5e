// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import ResumableUpload
import TestSupport
import Testing

@Suite struct PartWindowTests {
    /// The sizes after each of `count` arrivals, the one before first.
    private func sizes(_ window: inout PartWindow, _ count: Int) -> [Int] {
        var sizes = [window.size]
        for _ in 0..<count {
            window.arrived()
            sizes.append(window.size)
        }
        return sizes
    }

    @Test func aNewUploadBeginsWithOnePartAndTakesOneMoreForEachThatArrives() {
        var window = PartWindow(limit: 4)
        #expect(sizes(&window, 5) == [1, 2, 3, 4, 4, 4])
        var single = PartWindow(limit: 1)
        #expect(sizes(&single, 3) == [1, 1, 1, 1])
    }

    @Test func anInterruptionHalvesAndGrowthIsCarefulAfterwards() {
        var window = PartWindow(limit: 4)
        _ = sizes(&window, 3)
        window.interrupted()
        #expect(sizes(&window, 6) == [2, 2, 3, 3, 3, 4, 4])
        window.interrupted()
        window.interrupted()
        window.interrupted()
        #expect(sizes(&window, 3) == [1, 2, 2, 3])
    }

    @Test func anUploadThatGoesOnIsCarefulFromTheBeginning() {
        var window = PartWindow(limit: 4, isResumed: true)
        #expect(sizes(&window, 7) == [1, 2, 2, 3, 3, 3, 4, 4])
    }

    @Test func itStaysWithinItsLimits() {
        for seed in UInt64(1)...50 {
            var generator = SeededGenerator(seed: seed)
            var window = PartWindow(limit: Int.random(in: 1...16, using: &generator))
            for _ in 0..<200 {
                if generator.chance(20) { window.interrupted() } else { window.arrived() }
                #expect((1...window.limit).contains(window.size), "seed \(seed)")
            }
        }
    }

    @Test func partsThatAreLostTogetherCountOnceAndTheOthersGoOn() {
        var machine = MultipartUploadMachine(
            intent: UploadIntent(size: 200, base: .absent),
            partSize: 10,
            parallelism: 4,
            md5: fakeDigest
        )
        _ = machine.start()
        _ = machine.handle(.created(uploadID: "u"))
        #expect(machine.handle(.journalled).count == 1)
        for number in 1...3 { _ = machine.handle(.partUploaded(number: number, md5: [], entityTag: "t")) }
        #expect(machine.window.size == 4)
        #expect(machine.handle(.partFailed(number: 4, .temporary, retryAfter: nil)).count == 1)
        #expect(machine.handle(.partFailed(number: 5, .temporary, retryAfter: nil)) == [])
        #expect(machine.window.size == 2)
        // Those that run are let end, and nothing is begun meanwhile.
        #expect(machine.handle(.waited) == [])
        #expect(machine.handle(.partUploaded(number: 6, md5: [], entityTag: "t")).count == 1)
        let last = machine.handle(.partUploaded(number: 7, md5: [], entityTag: "t"))
        #expect(last.last == .listParts(uploadID: "u"))
        let listed = [1, 2, 3, 6, 7].map { MultipartUploadMachine.Listed(number: $0, size: 10, entityTag: "t") }
        let resumed = machine.handle(.listed(listed))
        let begun = resumed.compactMap { action -> Int? in
            if case .uploadPart(_, let number, _) = action { number } else { nil }
        }
        #expect(begun == [4, 5, 8], "those that arrived since have let one more in")
    }
}
