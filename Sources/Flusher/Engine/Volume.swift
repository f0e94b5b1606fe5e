// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Bandwidth
internal import Base
internal import Configuration
internal import Control
internal import Journal
internal import Platform
internal import Policy

/// What the engine knows of an open volume; guarded by the engine's monitor.
struct Volume: Sendable {
    let session: VolumeSession
    var facts: VolumeFacts
    /// The network interface that its remote is reached through; nil: unknown, or this machine's own.
    var interface: String?
    /// The network behind the interface that it was before, for a moment.
    var departed: DepartedNetwork?
    /// What its rows go by.
    var rules: RuleTable
    /// The newest change of the journal taken in.
    var seen: ChangeSequence = -1
    /// There are more rows than were taken in.
    var hasMore = false
    /// When to look at the journal again (monotonic seconds).
    var refreshAt: Double = 0
    /// No look at the journal is worth its cost before this time.
    var notBefore: Double = 0
    /// Transfers nobody wants that could not be ended yet.
    var unwanted = 0
    /// Something may be left at the remote that is still looked for.
    var hasLeftovers = false
    /// When to take in all rows again, gone ones too.
    var reloadAt: Double = 0
    /// When to ask whether the remote answers; nil: no need.
    var probeAt: Double?
    var probes = 0
    var isProbing = false
    /// The volume that asks the server for it at this moment.
    var askedBy: String?
    /// What is wrong with its server, where that is wrong for the volumes on it together.
    var outage: ServerOutage?
    /// The server fails for others; what it has for this volume is not known yet.
    var isHeldForOthers = false
    /// When it was asked last, by this volume or by another for it.
    var lastProbe: Double = 0
    /// When this volume asked last.
    var lastTurn: Double = 0
    /// How often in a row it answered when asked, and was away again before any work came through.
    var relapses = 0
    private var lastLoss: Double = 0
    /// Failed attempts in a row, over all rows.
    var failures = 0
    var handed: HandedCredentials?
    /// Why the remote cannot be used, for people.
    var trouble: String?
    /// When to look for a mount that died with open files.
    var recoverAt: Double = 0
    var hasOpenRows = false
    var wasDrained = true
    var space = SpaceWait()
    /// What the uploads that go by the same rules may send together, by their number.
    var limits: [Int: RateLimit] = [:]
    var work = WorkDone()
    /// Rows that wait for longer than their lifetime.
    var expired: Set<RowID> = []
    /// When a request was last answered as it should be.
    var answeredAt: Timestamp?
    /// There may be staging files of no row.
    var mayHaveOrphans = true

    init(session: VolumeSession, overrides: OptionValues, now: Timestamp) {
        self.session = session
        rules = RuleTable(session.description, overrides: overrides)
        facts = VolumeFacts(at: now)
    }

    /// The local disk has no room for what a row has to fetch.
    mutating func lackSpace(_ needed: Int64, free: Int64, _ now: Timestamp) {
        space.note(needed, free: free, isFirst: facts.hasDiskSpace.value, at: monotonicSeconds())
        facts.hasDiskSpace.observe(false, source: free < needed ? "statvfs" : "writes", at: now)
    }

    var settings: PolicySettings {
        let longest = rules.conditions.map(\.retryCap).max() ?? 300
        return PolicySettings(quietPeriod: session.description.quietPeriod, longestBackoff: longest)
    }

    /// Makes sure that a remote that is away is asked now and then: nothing else would find out that it is back.
    mutating func probeIfClosed() {
        guard !facts.isOpen || session.store == nil, probeAt == nil, !isProbing, askedBy == nil else { return }
        probeSoon(monotonicSeconds())
    }

    /// Notes that the remote is away, where the last time it had answered a small request well.
    mutating func relapse(_ now: Double) {
        if now - lastLoss > 120 { relapses = 0 }
        if lastProbe > lastLoss { relapses += 1 }
        lastLoss = now
    }

    /// How long to wait before the remote is asked again: what answers small requests alone is no reason to send it
    /// all the rest twice a second.
    var pauseAfterRelapse: Double {
        relapses <= 5 ? 0.1 : Backoff.delay(afterFailures: relapses - 5, longest: 30, random: .random(in: 0..<1))
    }

    /// Nothing is left to find out about the way to the remote.
    mutating func answered() {
        failures = 0
        probes = 0
        probeAt = nil
        askedBy = nil
        outage = nil
        isHeldForOthers = false
    }

    /// Asks the remote as soon as possible, but not more often than once a second.
    mutating func probeSoon(_ now: Double) {
        let earliest = max(now, lastProbe + 1)
        probeAt = min(probeAt ?? earliest, earliest)
    }
}
