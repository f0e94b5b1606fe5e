// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import Platform

/// Asks, before an object is deleted or replaced, whether a file without a name is open in the mount that shows it.
final class OpenReaders: Sendable {
    enum Verdict: Hashable {
        case go
        /// Ask again after so many seconds; why.
        case wait(Double, String)
    }

    private struct Entry {
        var wait: ReaderWait
        /// The number of the last question, and when it was asked, in monotonic seconds.
        var asked: UInt64 = 0
        var askedAt = 0.0
        /// The last answer was to wait.
        var isWaiting = false
    }

    private struct State {
        var entries: [Int64: Entry] = [:]
        var questions: UInt64 = 0
    }

    /// The most changes that are known to wait: of more, those that were not asked for longest begin anew.
    private static let limit = 2 * HeldVersions.limit
    /// A change that was not asked for in so many seconds is given up: the next one of the same version begins anew.
    ///
    /// Attempts that fail are mostly nearer to each other, and are not to wait anew each time.
    private static let memory = 3600.0
    /// Who is told to wait asks again within fewer seconds than these, unless something else holds it.
    private static let recently = 60.0

    private let directory: String
    private let patience: ReaderWait.Patience
    private let state = Lock(State())

    /// `directory`: that of the journal.
    init(directory: String, patience: ReaderWait.Patience) {
        self.directory = directory
        self.patience = patience
    }

    /// Whether an object may be deleted or replaced now; `change` is asked for only when it is in use.
    func ask<Failure: Error>(
        _ key: ObjectKey,
        _ version: ObjectVersion,
        isAwaited: Bool,
        at now: Double = monotonicSeconds(),
        as change: () throws(Failure) -> ReaderWait.Change
    ) throws(Failure) -> Verdict {
        let (finding, reason) = look(key, version)
        let place = HeldVersions.place(of: key, version)
        guard finding != .free else {
            state.withLock { $0.entries[place] = nil }
            return .go
        }
        let change = try change()
        let decision = state.withLock { state in
            decide(finding, change, place, isAwaited: isAwaited, at: now, &state)
        }
        guard case .wait(let seconds) = decision else { return .go }
        return .wait(seconds, reason)
    }

    /// Whether who asked for an object last, and not long ago, was told to wait.
    func areWaitedFor(_ key: ObjectKey, _ version: ObjectVersion, at now: Double = monotonicSeconds()) -> Bool {
        guard let entry = state.withLock({ $0.entries[HeldVersions.place(of: key, version)] }) else { return false }
        return entry.isWaiting && now - entry.askedAt < Self.recently
    }

    /// A change was made: the next one, should the same version be there again, has a wait of its own.
    func forget(_ key: ObjectKey, _ base: RemoteBase) {
        guard case .version(let version) = base else { return }
        state.withLock { $0.entries[HeldVersions.place(of: key, version)] = nil }
    }

    private func look(_ key: ObjectKey, _ version: ObjectVersion) -> (ReaderWait.Finding, String) {
        do throws(SystemError) {
            guard try HeldVersions.isHeld(key, version, in: directory) else { return (.free, "") }
            return (.held, "a program on this machine has the old file open")
        } catch {
            return (.unknown, "whether a program has the old file open cannot be found out: \(error)")
        }
    }

    private func decide(
        _ finding: ReaderWait.Finding,
        _ change: ReaderWait.Change,
        _ place: Int64,
        isAwaited: Bool,
        at now: Double,
        _ state: inout State
    ) -> ReaderWait.Decision {
        state.questions += 1
        if state.entries.count >= Self.limit, state.entries[place] == nil {
            let oldest = state.entries.min { $0.value.asked < $1.value.asked }?.key
            if let oldest { state.entries[oldest] = nil }
        }
        let known = state.entries[place].flatMap { now - $0.askedAt < Self.memory ? $0 : nil }
        var entry = known ?? Entry(wait: ReaderWait(patience))
        let decision = entry.wait.decide(finding, change, isAwaited: isAwaited, at: now)
        entry.asked = state.questions
        entry.askedAt = now
        entry.isWaiting = decision != .go
        state.entries[place] = entry
        return decision
    }
}
