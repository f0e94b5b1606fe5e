// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The document of `uploads list --json`.
package struct UploadsReport: Codable, Sendable {
    package var uploads: [UploadReport]
    /// What waits for a person's decision; nil where only the uploads are told.
    package var conflicts: [ConflictReport]?
    /// How many uploads a verb was carried out on, where ``uploads`` are the first of them.
    package var count: Int?

    package init(uploads: [UploadReport], conflicts: [ConflictReport]? = nil, count: Int? = nil) {
        self.uploads = uploads
        self.conflicts = conflicts
        self.count = count
    }
}

/// One upload as `uploads list` shows it.
package struct UploadReport: Codable, Sendable, Hashable {
    package enum Kind: String, Codable, Sendable {
        case put
        case delete
        case copy
        case mkdir
    }

    package enum State: String, Codable, Sendable {
        case queued
        case waiting
        case uploading
        case paused
        case attention
        case conflict
    }

    /// One reason why an upload does not start.
    package struct Waiting: Codable, Sendable, Hashable {
        /// One of the waiting reasons, such as `offline` or `quiet`.
        package var reason: String
        /// RFC 3339, UTC.
        package var since: String
        /// When it ends by itself, if that is known.
        package var until: String?
        /// More about it for people, such as what it depends on.
        package var detail: String?
        /// What would change it, for people; told by `uploads why`.
        package var hint: String?

        package init(reason: String, since: String, until: String?, detail: String? = nil) {
            self.reason = reason
            self.since = since
            self.until = until
            self.detail = detail
        }

        package func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(reason, forKey: .reason)
            try container.encode(since, forKey: .since)
            try container.encode(until, forKey: .until)
            try container.encodeIfPresent(detail, forKey: .detail)
            try container.encodeIfPresent(hint, forKey: .hint)
        }
    }

    package var id: String
    package var volume: String
    package var path: String
    package var kind: Kind
    /// The size of the content in bytes.
    package var size: Int64
    /// How many of them the remote acknowledged, or took in so far.
    package var sent: Int64
    /// How many bytes the server copies from what it has, counted in ``sent`` too; a flusher of before does not tell.
    package var copied: Int64?
    package var state: State
    package var waiting: [Waiting]
    package var uploadProtocol: String?
    package var attempts: Int
    package var nextAttempt: String?
    /// Whether a cut costs less than the whole content.
    package var resumable: Bool
    package var error: String?
    /// Nil where many are told at once.
    package var details: UploadDetails?

    package init(
        id: String,
        volume: String,
        path: String,
        kind: Kind,
        size: Int64,
        sent: Int64,
        copied: Int64 = 0,
        state: State,
        waiting: [Waiting],
        uploadProtocol: String?,
        attempts: Int,
        nextAttempt: String?,
        resumable: Bool,
        error: String?
    ) {
        self.id = id
        self.volume = volume
        self.path = path
        self.kind = kind
        self.size = size
        self.sent = sent
        self.copied = copied
        self.state = state
        self.waiting = waiting
        self.uploadProtocol = uploadProtocol
        self.attempts = attempts
        self.nextAttempt = nextAttempt
        self.resumable = resumable
        self.error = error
    }

    private enum CodingKeys: String, CodingKey {
        case id
        case volume
        case path
        case kind
        case size
        case sent
        case copied
        case state
        case waiting
        case uploadProtocol = "protocol"
        case attempts
        case nextAttempt = "next_attempt"
        case resumable
        case error
        case details
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(id, forKey: .id)
        try container.encode(volume, forKey: .volume)
        try container.encode(path, forKey: .path)
        try container.encode(kind, forKey: .kind)
        try container.encode(size, forKey: .size)
        try container.encode(sent, forKey: .sent)
        try container.encode(copied ?? 0, forKey: .copied)
        try container.encode(state, forKey: .state)
        try container.encode(waiting, forKey: .waiting)
        try container.encode(uploadProtocol, forKey: .uploadProtocol)
        try container.encode(attempts, forKey: .attempts)
        try container.encode(nextAttempt, forKey: .nextAttempt)
        try container.encode(resumable, forKey: .resumable)
        try container.encode(error, forKey: .error)
        try container.encodeIfPresent(details, forKey: .details)
    }
}
