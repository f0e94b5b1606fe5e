// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Journal
internal import Platform

/// A remote version that a file shows which loses its name: held at the remote until all of it is here, and kept here
/// until nobody has the file open.
final class KeptVersion: Sendable {
    private struct State {
        var hold: HeldVersions.Hold?
        /// Keeps the version's file in the cache, once somebody has looked.
        var reader: CacheReader?
        /// Its part of what the cache may keep for such files, once it is to be fetched, or was all there.
        var room: OpenFileKeeper.Room?
        var hasEnded = false
    }

    let key: ObjectKey
    let version: ObjectVersion
    private let state: Lock<State>

    init(_ key: ObjectKey, _ version: ObjectVersion, _ hold: HeldVersions.Hold?) {
        self.key = key
        self.version = version
        state = Lock(State(hold: hold))
    }

    /// Nobody reads it any more.
    var hasEnded: Bool { state.withLock { $0.hasEnded } }

    /// Whether it is held at the remote.
    var isHeld: Bool { state.withLock { $0.hold != nil } }

    /// Whether it has a part of what the cache may keep.
    var hasRoom: Bool { state.withLock { $0.room != nil } }

    func take(_ room: OpenFileKeeper.Room) {
        state.withLock { state in
            if !state.hasEnded { state.room = room }
        }
    }

    /// Lets go of everything.
    func end() {
        let old = state.withLock { state in
            let old = state
            state = State(hasEnded: true)
            return old
        }
        // Outside the lock: the last user of a file in the cache measures it.
        withExtendedLifetime(old) {}
    }

    /// All of it is here, or nowhere any more: the remote may do what it wants.
    func release() {
        let hold = state.withLock { state in
            defer { state.hold = nil }
            return state.hold
        }
        withExtendedLifetime(hold) {}
    }

    /// The reader that keeps its file in the cache; nil when nobody reads it any more.
    func reader(in cache: BlockCache) -> CacheReader? {
        let (known, hasEnded) = state.withLock { ($0.reader, $0.hasEnded) }
        if hasEnded { return nil }
        if let known { return known }
        let reader = cache.reader(of: key, version: version)
        return state.withLock { state in
            if state.hasEnded { return nil }
            state.reader = reader
            return reader
        }
    }
}

extension [KeptVersion] {
    /// Lets go of everything; not within a lock, as that is work for the kernel and the cache.
    func end() {
        for version in self { version.end() }
    }
}

extension FileContent {
    /// The remote versions that reads of it may need, this mount's own upload of it first.
    var remoteVersions: [UploadedVersion] {
        guard !map.underlayRanges.isEmpty || uploaded != nil else { return [] }
        let own = uploaded.map { [$0] } ?? []
        return switch below {
        case .nothing: own
        case .remote(let key, let version): own + [UploadedVersion(key: key, version: version)]
        case .content(let content): own + content.remoteVersions
        }
    }
}

extension Inode.State {
    /// Shows what the file's own upload made of it, where not all of its bytes are local: what was below may be gone, and
    /// without a name nobody can find out any more.
    ///
    /// Where that version could not be held, the local bytes are worth more.
    mutating func showUploaded() {
        guard let uploaded = content.uploaded, !isWritable, activeWrites == 0, revision == recorded,
            !content.map.underlayRanges.isEmpty,
            kept.contains(where: { $0.key == uploaded.key && $0.version == uploaded.version && $0.isHeld })
        else { return }
        content = .remote(uploaded.key, uploaded.version)
        isLoaded = true
    }

    /// Takes what was kept of the remote for who has it open, to be ended outside of the lock.
    mutating func takeKept() -> [KeptVersion] {
        defer { kept = [] }
        return kept
    }
}
