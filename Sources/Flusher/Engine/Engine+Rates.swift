// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Platform
internal import Policy

/// How fast uploads go, how many go at once, and how much room is left for what waits.
extension Engine {
    /// What a piece of work that was done counts like, in bytes: much of the time of small files goes into requests.
    private static let requestWeight = 65_536.0
    /// Less free space than this is little, in bytes.
    private static let littleSpace: Int64 = 1 << 30
    /// What `staging_limit` is used of when there is little left of it.
    private static let muchStaging = 0.75

    /// Once a second: `now` in monotonic seconds.
    func watchRates(_ now: Double) {
        let isNews = state.inspect { state in
            let news = Array(state.volumes.keys).map { state.watchRate(of: $0, now) }
            return news.contains(true)
        }
        watchSpace()
        // Limits may have grown: the workers look again.
        if isNews { state.update { _ in } }
    }

    /// Finds out whether what is not sent takes most of the room that there is for it.
    private func watchSpace() {
        let volumes = state.inspect { $0.volumes.values.filter { $0.rules.mayDefer || $0.facts.isUnderPressure } }
        for volume in volumes {
            let session = volume.session
            let free = (try? Files.freeSpace(at: session.places.state)) ?? .max
            let pending = state.inspect { $0.scheduler.bytes(of: session.id) }
            let limit = session.description.stagingLimit.map { Int64(Double($0) * Self.muchStaging) } ?? .max
            let isTight = pending > 0 && (free < Self.littleSpace || pending >= limit)
            guard isTight != volume.facts.isUnderPressure else { continue }
            state.update { state in
                guard var volume = state.volumes[session.id] else { return }
                volume.facts.isUnderPressure = isTight
                state.volumes[session.id] = volume
                state.scheduler.setFacts(volume.facts, settings: volume.settings, of: session.id, now: .now())
            }
        }
    }
}

extension Engine.State {
    /// Takes in what was done for a volume since the last time; whether more may go on with its remote than before.
    fileprivate mutating func watchRate(of id: String, _ now: Double) -> Bool {
        guard var volume = volumes[id] else { return false }
        let before = scheduler.limit(of: id) ?? 0
        let running = jobs.filter { $0.key.volume == id }.values
        for job in running where job.progress?.takeTroubles() ?? 0 > 0 { scheduler.noteTrouble(with: id, at: now) }
        let sent = volume.session.sent.total
        let bytes = Double(max(0, sent - volume.work.bytes))
        let moved = bytes + Double(volume.work.done) * Engine.requestWeight
        scheduler.noteWork(with: id, moved: moved, at: now)
        // Deletions and copies say nothing of how fast contents go.
        volume.work.note(sent, isBusy: running.contains { $0.progress != nil }, at: now)
        let rate = volume.work.rate
        volumes[id] = volume
        // Every row is looked at anew then: only what makes a difference to them is worth it.
        if rate > 0, volume.facts.rate <= 0 || !(0.5...2).contains(rate / volume.facts.rate) {
            volumes[id]?.facts.rate = rate
            if let volume = volumes[id] {
                scheduler.setFacts(volume.facts, settings: volume.settings, of: id, now: .now())
            }
        }
        return scheduler.limit(of: id) ?? 0 > before
    }

    /// What is set for a row.
    func conditions(of row: RowID) -> UploadConditions {
        guard let rules = volumes[row.volume]?.rules else { return UploadConditions() }
        let number = scheduler.row(row)?.facts.rules ?? 0
        return rules.conditions[rules.conditions.indices.contains(number) ? number : 0]
    }
}

/// What was sent to a volume's remote, as far as it was looked at.
struct WorkDone: Sendable {
    /// All bytes of contents.
    private(set) var bytes: Int64 = 0
    /// Pieces of work ended since it was looked at last.
    var done = 0
    /// Bytes a second while something was under way, the last half minute counting most; 0: unknown.
    private(set) var rate = 0.0
    private var lastTime: Double?

    /// `total` bytes were sent so far.
    mutating func note(_ total: Int64, isBusy: Bool, at now: Double) {
        defer {
            bytes = total
            done = 0
            lastTime = now
        }
        guard let lastTime, now > lastTime, isBusy || total > bytes else { return }
        let latest = Double(max(0, total - bytes)) / (now - lastTime)
        let share = min(1, (now - lastTime) / 30)
        rate = rate == 0 ? latest : rate + (latest - rate) * share
    }
}
