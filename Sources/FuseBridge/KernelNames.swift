// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CFuse
internal import FileSystem
internal import Glibc
internal import Platform

/// What the kernel answers by itself for a while: names that it was told of, and names that it was told do not exist.
final class KernelNames: Sendable {
    private struct State: @unchecked Sendable {
        // Used under the lock, and set to nil before the session ends.
        var session: OpaquePointer?
        /// Folders can be let go of without what is mounted in them.
        var canExpireFolders = false
        var missing = MissingNames()
    }

    private let state = Lock(State())
    /// Since Linux 6.2 the kernel looks at a name anew without dropping it, and what is mounted below it.
    private static let expiringProtocol = (major: 7, minor: 38)

    /// The session whose names these are; nil before its end.
    func serve(_ session: OpaquePointer?) {
        state.withLock { $0.session = session }
    }

    func note(_ connection: fuse_conn_info) {
        let version = (Int(connection.proto_major), Int(connection.proto_minor))
        state.withLock { $0.canExpireFolders = version >= Self.expiringProtocol }
    }

    /// The kernel is told that a name does not exist, and believes it for some seconds.
    func noteMissing(_ parent: fuse_ino_t, _ name: ObjectKey, for seconds: Double) {
        guard seconds > 0 else { return }
        let now = monotonicSeconds()
        state.withLock { $0.missing.note(parent, name, until: now + seconds, now: now) }
    }

    /// Has the kernel ask again for these names, and for all that it was told do not exist.
    ///
    /// The kernel waits for lookups that are under way in their folders.
    func expire(_ names: [KnownName]) {
        let (known, canExpireFolders) = state.withLock { state in
            (names + state.missing.take(), state.canExpireFolders)
        }
        for name in known where canExpireFolders || !name.isDirectory { expire(name) }
    }

    private func expire(_ known: KnownName) {
        guard let session = state.withLock({ $0.session }) else { return }
        let text = known.name.bytes.map { CChar(bitPattern: $0) } + [0]
        _ = moorage_fuse_expire_entry(session, known.parent, text, text.count - 1)
    }
}

/// Names that somebody was told do not exist, for as long as they are believed not to.
struct MissingNames: Sendable {
    /// What is told beyond this is believed for its time.
    static let limit = 4096

    private var entries: [(parent: UInt64, name: ObjectKey, until: Double)] = []

    mutating func note(_ parent: UInt64, _ name: ObjectKey, until: Double, now: Double) {
        if entries.count >= Self.limit { entries.removeAll { $0.until <= now } }
        // The oldest half at once, as taking one from the front moves all others.
        if entries.count >= Self.limit { entries.removeFirst(Self.limit / 2) }
        entries.append((parent, name, until))
    }

    /// All of them, which are forgotten.
    mutating func take() -> [KnownName] {
        defer { entries = [] }
        return entries.map { KnownName(parent: $0.parent, name: $0.name, isDirectory: false) }
    }
}
