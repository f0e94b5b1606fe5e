// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform
internal import Synchronization

/// The names of a folder since the last rewind, growing as they are read or listed.
///
/// Each name appears once and keeps its place, so that a reader may go back. Of what is under the names only a window
/// is kept; behind it it is read again.
final class DirectoryStream: Sendable {
    /// A name and what is under it.
    struct Item {
        var name: ObjectKey
        /// S_IFMT bits, 0 while unknown.
        var type: UInt32
        var presence: Presence
    }

    /// Where the names behind the last one come from.
    enum Source: Sendable {
        /// The catalog, in the order of names.
        case catalog(after: ObjectKey?)
        /// A listing under way, which appends them.
        case listing
        /// The catalog, but for those that are here already.
        case rest
        case nothing
        case failure(FileError)
    }

    /// What was under a name, and on which ground.
    private struct Known {
        var presence: Presence
        var ground: ListingGround
    }

    private struct State {
        var names = PackedNames()
        var source: Source
        /// What was under the names from `windowStart` on.
        var window: [Known] = []
        var windowStart = 0
        var windowEnd: Int { windowStart + window.count }
        /// The place behind the last name that was taken.
        var position = 0
    }

    /// The folder's path when it was begun.
    let path: ObjectKey
    /// What the rows that hide names of the remote were read on.
    let ground: ListingGround
    /// The names that had a row of the journal then; they are in the stream, but for tombstones.
    let rows: Set<ObjectKey>
    /// Held by the reader that appends from the catalog.
    let loading = Lock(())
    private let state: Monitor<State>
    /// How many presences are kept for the reader, and how many behind it: the kernel asks again for what did not fit
    /// into its caller's buffer.
    private static let ahead = 8192
    private static let behind = 2048

    /// No other stream has it.
    let serial = DirectoryStream.count.add(1, ordering: .relaxed).newValue
    private static let count = Atomic<Int>(0)

    init(_ path: ObjectKey, rows: Set<ObjectKey>, ground: ListingGround, source: Source) {
        self.path = path
        self.rows = rows
        self.ground = ground
        state = Monitor(State(source: source))
    }

    /// How many names there are so far, and where more come from.
    var progress: (count: Int, source: Source) { state.inspect { ($0.names.count, $0.source) } }

    /// Whether the name at `index` is still to come from a listing.
    func mayHaveToWait(_ index: Int) -> Bool {
        state.inspect { state in
            if case .listing = state.source { return state.names.count <= index }
            return false
        }
    }

    /// Waits while a listing is to bring the name at `index`; throws `interrupted` when the request is given up meanwhile.
    func waitForListing(_ index: Int) throws(FileError) {
        let hasCome = state.waitUnlessInterrupted { state -> Bool? in
            if case .listing = state.source, state.names.count <= index { return nil }
            return true
        }
        guard hasCome != nil else { throw .interrupted }
    }

    /// Appends names that were read on `ground`; a new source where it changes with them.
    func append(_ items: [Item], on ground: ListingGround, then source: Source? = nil) {
        state.update { state in
            let start = state.names.count
            let hasRoom = start - state.position < Self.ahead
            for item in items { state.names.append(item.name, type: item.type) }
            if let source { state.source = source }
            // What is left out is read again when it is its turn.
            guard hasRoom else { return }
            Self.know(items.map(\.presence), from: start, on: ground, in: &state)
        }
    }

    /// Notes what is under the names from a place on, together with what is known around them: all of it, or none where
    /// there would be a gap.
    private static func know(
        _ presences: [Presence],
        from index: Int,
        on ground: ListingGround,
        in state: inout State
    ) {
        if index < state.windowStart || index > state.windowEnd { (state.window, state.windowStart) = ([], index) }
        let start = index - state.windowStart
        let end = min(start + presences.count, state.window.count)
        state.window.replaceSubrange(start..<end, with: presences.map { Known(presence: $0, ground: ground) })
        forget(&state)
    }

    /// Goes on with another source, for which nothing may be appended any more.
    func go(on source: Source) { state.update { $0.source = source } }

    private static func forget(_ state: inout State) {
        let surplus = state.position - behind - state.windowStart
        guard surplus > behind else { return }
        let count = min(surplus, state.window.count)
        state.window.removeFirst(count)
        state.windowStart += count
    }

    /// A name, S_IFMT bits, and what was under it where that is known.
    typealias Given = (name: ObjectKey, type: UInt32, presence: Presence?)

    /// The next names from a place on, with what was under them where that was read on `ground`; none behind the last.
    func items(from index: Int, count: Int, on ground: ListingGround?) -> [Given] {
        state.inspect { state in
            let end = min(index + count, state.names.count)
            guard index < end else { return [] }
            state.position = max(state.position, end)
            return (index..<end).map { index in
                (state.names.name(index), state.names.type(index), Self.presence(index, ground, state))
            }
        }
    }

    private static func presence(_ index: Int, _ ground: ListingGround?, _ state: State) -> Presence? {
        let place = index - state.windowStart
        guard state.window.indices.contains(place), state.window[place].ground == ground else { return nil }
        return state.window[place].presence
    }

    /// Whether ``items(from:count:on:)`` would tell what is under the name.
    func isKnown(_ index: Int, on ground: ListingGround) -> Bool {
        state.inspect { Self.presence(index, ground, $0) != nil }
    }

    /// Some names from a place on.
    func names(from index: Int, count: Int) -> [ObjectKey] {
        state.inspect { state in (index..<min(index + count, state.names.count)).map { state.names.name($0) } }
    }

    /// Notes what is under the names from a place on.
    func know(_ presences: [Presence], from index: Int, on ground: ListingGround) {
        state.inspect { Self.know(presences, from: index, on: ground, in: &$0) }
    }
}
