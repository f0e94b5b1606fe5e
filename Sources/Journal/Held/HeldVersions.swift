// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CXXHash
internal import Platform

/// The remote versions that files open in the mount still need although they have no name any more, for the flusher to
/// leave alone.
///
/// A locked byte a version in the file `held.lock` beside the journal, see ``ByteLocks``: whoever is killed holds
/// nothing. Two versions may have the same byte, by chance: then one is left alone for nothing.
package final class HeldVersions: Sendable {
    private struct State {
        var locks: ByteLocks?
        /// How often each byte is held here.
        var counts: [Int64: Int] = [:]
        /// The log has why nothing can be held.
        var hasTold = false
    }

    /// The most versions held at once: the kernel goes through all locks of a file for each question.
    package static let limit = 4096

    private let path: String
    private let state = Lock(State())

    /// Opens nothing before something is held; `directory` is that of the journal.
    package init(directory: String) {
        path = Self.path(in: directory)
    }

    /// Holds a version until the hold is let go; nil when that is not possible, or too many are held.
    package func hold(_ key: ObjectKey, _ version: ObjectVersion) -> Hold? {
        let place = Self.place(of: key, version)
        do throws(SystemError) {
            let isHeld = try state.withLock { state throws(SystemError) in try take(place, &state) }
            return isHeld ? Hold(self, place) : nil
        } catch {
            tell(error)
            return nil
        }
    }

    /// Says once why nothing can be held: it may be so for each of very many files.
    private func tell(_ error: SystemError) {
        let isNews = state.withLock { state in
            defer { state.hasTold = true }
            return !state.hasTold
        }
        guard isNews else { return }
        Log.warning("mount", "what is removed while it is open may go from the remote before it was read: \(error)")
    }

    private func take(_ place: Int64, _ state: inout State) throws(SystemError) -> Bool {
        if let count = state.counts[place] {
            state.counts[place] = count + 1
            return true
        }
        guard state.counts.count < Self.limit else { return false }
        let locks: ByteLocks
        if let known = state.locks { locks = known } else { locks = try ByteLocks(at: path) }
        state.locks = locks
        try locks.take(place)
        state.counts[place] = 1
        state.hasTold = false
        return true
    }

    private func release(_ place: Int64) {
        state.withLock { state in
            guard let count = state.counts[place] else { return }
            state.counts[place] = count > 1 ? count - 1 : nil
            if count == 1 { state.locks?.release(place) }
        }
    }

    /// A version that is held for as long as this lives.
    package final class Hold: Sendable {
        private let owner: HeldVersions
        private let place: Int64

        fileprivate init(_ owner: HeldVersions, _ place: Int64) {
            self.owner = owner
            self.place = place
        }

        deinit { owner.release(place) }
    }
}

extension HeldVersions {
    /// Whether any process holds a version; throws when the file cannot be looked at.
    package static func isHeld(
        _ key: ObjectKey,
        _ version: ObjectVersion,
        in directory: String
    ) throws(SystemError) -> Bool {
        try ByteLocks.isTaken(place(of: key, version), at: path(in: directory))
    }

    /// The byte that stands for a version: the same for all that are the same by ``ObjectVersion/isSame(as:)``.
    package static func place(of key: ObjectKey, _ version: ObjectVersion) -> Int64 {
        let validator =
            version.entityTag.map { "\"" + $0.opaque } ?? version.lastModified.map { "\($0.nanoseconds)" } ?? ""
        let bytes = key.bytes + [0] + Array("\(version.size) \(validator)".utf8)
        let hash = bytes.withUnsafeBytes { moorage_XXH3_64bits($0.baseAddress, $0.count) }
        return Int64(hash & UInt64(ByteLocks.places.upperBound))
    }

    private static func path(in directory: String) -> String { directory + "/held.lock" }
}
