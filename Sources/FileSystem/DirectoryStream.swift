// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

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

    private struct State {
        var names = PackedNames()
        var source: Source
        /// What is under the names from `windowStart` on, as it was on `ground`.
        var window: [Presence] = []
        var windowStart = 0
        var ground: ListingGround
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

    init(_ path: ObjectKey, rows: Set<ObjectKey>, ground: ListingGround, source: Source) {
        self.path = path
        self.rows = rows
        self.ground = ground
        state = Monitor(State(source: source, ground: ground))
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
            let isContinuous = state.windowStart + state.window.count == state.names.count
            let hasRoom = state.names.count - state.position < Self.ahead
            for item in items { state.names.append(item.name, type: item.type) }
            if let source { state.source = source }
            // What is left out is read again when it is its turn.
            guard isContinuous, hasRoom, state.ground == ground || state.window.isEmpty else { return }
            state.ground = ground
            state.window += items.map(\.presence)
            Self.forget(&state)
        }
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
            let known = state.ground == ground ? state.window.indices : 0..<0
            return (index..<end).map { index in
                let place = index - state.windowStart
                let presence = known.contains(place) ? state.window[place] : nil
                return (state.names.name(index), state.names.type(index), presence)
            }
        }
    }

    /// Whether ``items(from:count:on:)`` would tell what is under the name.
    func isKnown(_ index: Int, on ground: ListingGround) -> Bool {
        state.inspect { $0.ground == ground && $0.window.indices.contains(index - $0.windowStart) }
    }

    /// Some names from a place on.
    func names(from index: Int, count: Int) -> [ObjectKey] {
        state.inspect { state in (index..<min(index + count, state.names.count)).map { state.names.name($0) } }
    }

    /// Replaces what is known of the names from a place on.
    func know(_ presences: [Presence], from index: Int, on ground: ListingGround) {
        state.inspect { state in
            state.window = presences
            state.windowStart = index
            state.ground = ground
        }
    }
}
