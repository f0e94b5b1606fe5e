// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// What listings rest on: when it changes they do not count any more.
struct ListingGround: Hashable {
    var epoch = 0
    var journal: Int64 = 0
}

/// When each folder was listed last, and which are being listed now.
final class Listings: Sendable {
    private struct Listed {
        /// Monotonic seconds.
        var at: Double
        /// How long it took: what is expensive to list is believed longer.
        var cost: Double
        /// The remote did not answer: what is shown is of an earlier time.
        var isStale: Bool

        /// For how long it is believed, in seconds.
        func lifetime(_ age: Double) -> Double { max(age, min(20 * cost, cost + Listings.longestExtension)) }
    }

    private struct State {
        var listed: [ObjectKey: Listed] = [:]
        /// The folders being listed, and since when.
        var running: [ObjectKey: Timestamp] = [:]
        var ground = ListingGround()
        /// What began before is not believed, in monotonic seconds.
        var refreshedAt = 0.0
        /// When the remote said that it does not list a folder, in monotonic seconds.
        var unlistable: [ObjectKey: Double] = [:]
    }

    private let state = Monitor(State())
    private static let maximumCount = 100_000
    /// For as long after its end an expensive listing is believed at most when its age is to be shorter, in seconds.
    private static let longestExtension = 60.0

    func isFresh(_ folder: ObjectKey, age: Double) -> Bool {
        state.inspect { state in
            guard let listed = state.listed[folder] else { return false }
            return age > 0 && monotonicSeconds() - listed.at < listed.lifetime(age)
        }
    }

    /// For how long the names of a folder are believed still, in seconds.
    ///
    /// Without a listing that counts they come from one that is under way, or were asked for one by one just now.
    func remainingAge(of folder: ObjectKey, age: Double) -> Double {
        state.inspect { state in
            guard let listed = state.listed[folder] else { return age }
            let rest = listed.at + listed.lifetime(age) - monotonicSeconds()
            return rest > 0 ? rest : age
        }
    }

    /// When the listing of a folder began that is still believed in `margin` seconds, in monotonic seconds.
    func time(of folder: ObjectKey, age: Double, margin: Double) -> Double? {
        state.inspect { state in
            guard let listed = state.listed[folder], !listed.isStale else { return nil }
            return monotonicSeconds() + margin - listed.at < listed.lifetime(age) ? listed.at : nil
        }
    }

    /// Whether the newest listing came from the remote.
    func isReal(_ folder: ObjectKey) -> Bool { state.inspect { $0.listed[folder]?.isStale == false } }

    func isKnown(_ folder: ObjectKey) -> Bool { state.inspect { $0.listed[folder] != nil } }

    func note(_ folder: ObjectKey, at time: Double, cost: Double, isStale: Bool = false) {
        state.inspect { state in
            guard isStale || time >= state.refreshedAt else { return }
            // Forgetting costs a listing, so the bound may be crude.
            if state.listed.count >= Self.maximumCount { state.listed = [:] }
            state.listed[folder] = Listed(at: time, cost: cost, isStale: isStale)
        }
    }

    func forget(_ folder: ObjectKey) {
        state.inspect { _ = $0.listed.removeValue(forKey: folder) }
    }

    /// Forgets a folder, all below it and the one that it is in; what is being listed now is not believed either.
    func forgetAll(at path: ObjectKey) {
        state.inspect { state in
            state.refreshedAt = monotonicSeconds()
            for folder in state.listed.keys where folder.isInside(path) || folder == path.parent {
                state.listed[folder] = nil
            }
            for folder in state.unlistable.keys where folder.isInside(path) { state.unlistable[folder] = nil }
        }
    }

    /// Whether the remote said a short time ago that it does not list this folder.
    func isUnlistable(_ folder: ObjectKey, age: Double) -> Bool {
        state.inspect { $0.unlistable[folder].map { monotonicSeconds() - $0 < age } ?? false }
    }

    func noteUnlistable(_ folder: ObjectKey, at time: Double) {
        state.inspect { state in
            if state.unlistable.count >= Self.maximumCount { state.unlistable = [:] }
            state.unlistable[folder] = time
        }
    }

    /// Forgets everything when the ground is another one than before; whether it is.
    @discardableResult
    func follow(_ ground: ListingGround) -> Bool {
        state.inspect { state in
            guard state.ground != ground else { return false }
            state.ground = ground
            state.listed = [:]
            return true
        }
    }

    /// Runs `body` for a folder, one thread at a time; throws `interrupted` when the request is given up meanwhile.
    func once(_ folder: ObjectKey, _ body: () throws(FileError) -> Void) throws(FileError) {
        let isMine = state.waitUnlessInterrupted { Self.begin(folder, .now(), &$0) ? true : nil }
        guard isMine != nil else { throw .interrupted }
        defer { end(folder) }
        try body()
    }

    /// Notes that a folder is being listed until ``end(_:)``; false when it is already.
    func begin(_ folder: ObjectKey, at time: Timestamp) -> Bool {
        state.inspect { Self.begin(folder, time, &$0) }
    }

    private static func begin(_ folder: ObjectKey, _ time: Timestamp, _ state: inout State) -> Bool {
        guard state.running[folder] == nil else { return false }
        state.running[folder] = time
        return true
    }

    func end(_ folder: ObjectKey) {
        state.update { _ = $0.running.removeValue(forKey: folder) }
    }

    /// Since when a folder is being listed; nil when it is not.
    func isRunning(since folder: ObjectKey) -> Timestamp? { state.inspect { $0.running[folder] } }
}
