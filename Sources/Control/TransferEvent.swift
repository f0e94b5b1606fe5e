// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// One line of `moorage events --json`: something that happened to the flusher, a volume or an upload.
///
/// Members that do not apply are absent. Docs/Watching.md says which kinds have which; kinds and members are
/// only ever added.
package struct TransferEvent: Codable, Sendable, Hashable {
    package enum Kind: String, Codable, Sendable, CaseIterable {
        /// ``TransferEvent/state``: `running` when this reader found one, `stopping`, `gone` when there is none.
        case flusher
        /// An upload is new, or its content is.
        case queued
        /// The first bytes of an upload go out.
        case started
        /// An upload goes on behind the bytes that the remote has: ``TransferEvent/offset``.
        case resumed
        /// What the remote had of an upload counts no more: it begins at its first byte again.
        case restarted
        /// How far a running upload is, at most once a second.
        case progress
        /// An upload waits for other reasons than before: ``TransferEvent/waiting``.
        case waiting
        /// A path is remote as it is here.
        case finished
        /// An attempt failed; another one follows at ``TransferEvent/nextAttempt``.
        case failed
        /// An upload needs a person.
        case attention
        /// A local change met a remote one; ours is now at ``TransferEvent/copy``.
        case conflict
        /// What holds the uploads of a whole volume changed: ``TransferEvent/state`` is `closed` or `open`.
        case gate
        /// Nothing is pending in a volume any more.
        case idle
        /// So many events were dropped, as this reader is slower than they come: ``TransferEvent/count``.
        case missed
    }

    /// RFC 3339, UTC.
    package var time: String
    package var event: Kind
    /// The volume's id.
    package var volume: String?
    /// The upload's id, as in `uploads list`.
    package var id: String?
    package var path: String?
    package var state: String?
    /// Bytes of content.
    package var size: Int64?
    /// Of them at the remote, or on their way.
    package var sent: Int64?
    /// The byte that an upload goes on at.
    package var offset: Int64?
    package var bytesPerSecond: Int64?
    package var waiting: [UploadReport.Waiting]?
    package var error: String?
    package var attempts: Int?
    /// RFC 3339, UTC.
    package var nextAttempt: String?
    package var copy: String?
    package var count: Int?
    package var pid: Int32?

    package init(_ event: Kind, at time: String, volume: String? = nil, id: String? = nil, path: String? = nil) {
        self.time = time
        self.event = event
        self.volume = volume
        self.id = id
        self.path = path
    }

    private enum CodingKeys: String, CodingKey {
        case time
        case event
        case volume
        case id
        case path
        case state
        case size
        case sent
        case offset
        case bytesPerSecond = "bytes_per_second"
        case waiting
        case error
        case attempts
        case nextAttempt = "next_attempt"
        case copy
        case count
        case pid
    }
}
