// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Journal
import TestSupport
import Testing

/// Random operations of a mount and a flusher against a model of what the user must see.
@Suite struct JournalModelTests {
    /// How many sequences each test runs: `MOORAGE_SEEDS`, else a number that takes seconds.
    static let count = getenv("MOORAGE_SEEDS").flatMap { UInt64(String(cString: $0)) } ?? 150
    /// One seed to repeat, from `MOORAGE_SEED`.
    static let only = getenv("MOORAGE_SEED").flatMap { UInt64(String(cString: $0)) }

    static func seeds(_ first: UInt64, times: UInt64 = 1) -> [UInt64] {
        only.map { [$0] } ?? Array(first..<first + count * times)
    }

    @Test func remoteBecomesWhatTheUserSawWhateverTheOrderOfTransfers() throws {
        var seen: [String: Int] = [:]
        for seed in Self.seeds(1) { try run(seed, crashes: false, &seen) }
        guard Self.only == nil else { return }
        for event in [
            "create", "write", "truncate", "chmod", "unlink", "mkdir", "rmdir", "rename", "mvdir", "symlink",
            "exchange", "link", "copy-link",
            "begin", "hydrate", "commit", "land", "fail", "abort", "complete", "delete", "delete-marker", "put-marker",
            "412", "completed-settled", "completed-hasMore", "release", "check", "check-some",
        ] {
            #expect(seen[event, default: 0] > 0, "no \(event) happened")
        }
    }

    /// Of what is given up nothing is left, and nothing else is lost by it.
    @Test func whatIsCancelledTakesNothingElseAlong() throws {
        var seen: [String: Int] = [:]
        for seed in Self.seeds(3_000_001, times: 2) { try run(seed, crashes: seed % 4 < 2, cancels: true, &seen) }
        guard Self.only == nil else { return }
        for event in ["cancel", "undone", "back", "another", "heir"] {
            #expect(seen[event, default: 0] > 0, "no \(event) happened")
        }
    }

    @Test func killsLoseNothingThatWasAcknowledged() throws {
        var seen: [String: Int] = [:]
        for seed in Self.seeds(1_000_001) { try run(seed, crashes: true, &seen) }
        #expect(Self.only != nil || seen["crash", default: 0] > 0)
        #expect(Self.only != nil || Self.count < 100 || seen["unmade", default: 0] > 0)
    }

    @Test func powerLossTearsNothingAndKeepsWhatWasDurable() throws {
        var seen: [String: Int] = [:]
        for seed in Self.seeds(2_000_001, times: 3) { try losePower(seed, &seen) }
        guard Self.only == nil else { return }
        #expect(seen["compared", default: 0] > 0)
        #expect(seen["set-aside", default: 0] > 0)
        #expect(seen["check", default: 0] > 0)
    }

    private func losePower(_ seed: UInt64, _ seen: inout [String: Int]) throws {
        let world = try World(seed: seed)
        var last = world
        do {
            for _ in 0..<world.random.below(20) { try world.mountStep() }
            let point = try world.makeDurable()
            let start = world.trace.count
            for _ in 0..<world.random.below(40) { try world.stepBeforePowerLoss() }
            let touched = Set(world.trace[start...].flatMap { $0.split(separator: " ").dropFirst().map(String.init) })
            let isUntouched = { (path: ObjectKey) in
                // What moves with a folder is touched, too, and what takes its old place.
                !touched.contains { path.isInside(ObjectKey($0)) || ObjectKey($0).isInside(path) }
            }
            let after = try world.afterPowerLoss(point)
            last = after
            try after.checkAfterPowerLoss(point, untouched: isUntouched)
            seen["compared", default: 0] += point.model.keys.filter(isUntouched).count
            for _ in 0..<world.random.below(30) {
                if world.random.chance(60) { try after.mountStep() } else { try after.flusherStep() }
                try after.check()
            }
            try after.finish()
            seen.merge(after.seen) { $0 + $1 }
            seen["set-aside", default: 0] += world.seen["set-aside", default: 0]
        } catch {
            Issue.record("seed \(seed): \(error)\n  \(last.trace.suffix(120).joined(separator: "\n  "))")
            throw error
        }
    }

    private func run(_ seed: UInt64, crashes: Bool, cancels: Bool = false, _ seen: inout [String: Int]) throws {
        let world = try World(seed: seed)
        world.keepsOlderCopies = cancels
        do {
            for _ in 0..<80 {
                if world.random.chance(55) { try world.mountStep() } else { try world.flusherStep() }
                if crashes, world.random.chance(4) { try world.crash() }
                if cancels { try world.cancelStep() }
                try world.check()
            }
            try world.finish()
        } catch {
            let steps = world.trace.suffix(200).joined(separator: "\n  ")
            Issue.record("seed \(seed): \(error)\n  \(steps)\n\((try? world.describe()) ?? "")")
            throw error
        }
        seen.merge(world.seen) { $0 + $1 }
    }
}
