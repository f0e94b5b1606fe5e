// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How the uploads of a volume get on, as `status --json` tells it; a flusher that does not run has nothing to tell.
package struct ActivityReport: Codable, Sendable, Hashable {
    /// Uploads that wait for one reason; an upload with several counts in each.
    package struct Group: Codable, Sendable, Hashable {
        package var files: Int
        package var waiting: UploadReport.Waiting

        package init(files: Int, waiting: UploadReport.Waiting) {
            self.files = files
            self.waiting = waiting
        }

        private enum CodingKeys: String, CodingKey {
            case files
        }

        // The reason's members stand beside the number.
        package init(from decoder: any Decoder) throws {
            files = try decoder.container(keyedBy: CodingKeys.self).decode(Int.self, forKey: .files)
            waiting = try UploadReport.Waiting(from: decoder)
        }

        package func encode(to encoder: any Encoder) throws {
            try waiting.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(files, forKey: .files)
        }
    }

    /// The change that waits longest to become remote.
    package struct Wait: Codable, Sendable, Hashable {
        /// RFC 3339, UTC.
        package var since: String
        package var seconds: Double

        package init(since: String, seconds: Double) {
            self.since = since
            self.seconds = seconds
        }
    }

    /// Bytes a second over the last ten seconds.
    package var bytesPerSecond: Int64
    /// Seconds until all that is pending is sent at that rate; nil where nothing moves.
    package var secondsLeft: Double?
    /// Bytes of what is pending that are still to be sent.
    package var bytesLeft: Int64
    /// Uploads that wait for nothing but a free worker.
    package var ready: Int
    package var waiting: [Group]
    package var oldestWait: Wait?
    /// What runs, at most as many as there are workers.
    package var transfers: [TransferReport]
    /// The uploads that come next when nothing holds them, a few.
    package var next: [UploadReport]

    package init(
        bytesPerSecond: Int64,
        secondsLeft: Double?,
        bytesLeft: Int64,
        ready: Int,
        waiting: [Group],
        oldestWait: Wait?,
        transfers: [TransferReport],
        next: [UploadReport]
    ) {
        self.bytesPerSecond = bytesPerSecond
        self.secondsLeft = secondsLeft
        self.bytesLeft = bytesLeft
        self.ready = ready
        self.waiting = waiting
        self.oldestWait = oldestWait
        self.transfers = transfers
        self.next = next
    }

    private enum CodingKeys: String, CodingKey {
        case bytesPerSecond = "bytes_per_second"
        case secondsLeft = "eta_seconds"
        case bytesLeft = "bytes_left"
        case ready
        case waiting
        case oldestWait = "oldest_wait"
        case transfers
        case next
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(bytesPerSecond, forKey: .bytesPerSecond)
        try container.encode(secondsLeft, forKey: .secondsLeft)
        try container.encode(bytesLeft, forKey: .bytesLeft)
        try container.encode(ready, forKey: .ready)
        try container.encode(waiting, forKey: .waiting)
        try container.encode(oldestWait, forKey: .oldestWait)
        try container.encode(transfers, forKey: .transfers)
        try container.encode(next, forKey: .next)
    }
}

/// One upload that runs.
package struct TransferReport: Codable, Sendable, Hashable {
    package var id: String
    package var path: String
    /// Bytes of content.
    package var size: Int64
    /// Of them at the remote or on their way; never falls, unless ``restarts`` grows.
    package var sent: Int64
    /// How often it began at its first byte again, as far as this flusher knows.
    package var restarts: Int
    package var bytesPerSecond: Int64
    package var secondsLeft: Double?
    package var uploadProtocol: String?

    package init(
        id: String,
        path: String,
        size: Int64,
        sent: Int64,
        restarts: Int,
        bytesPerSecond: Int64,
        secondsLeft: Double?,
        uploadProtocol: String?
    ) {
        self.id = id
        self.path = path
        self.size = size
        self.sent = sent
        self.restarts = restarts
        self.bytesPerSecond = bytesPerSecond
        self.secondsLeft = secondsLeft
        self.uploadProtocol = uploadProtocol
    }

    private enum CodingKeys: String, CodingKey {
        case id
        case path
        case size
        case sent
        case restarts
        case bytesPerSecond = "bytes_per_second"
        case secondsLeft = "eta_seconds"
        case uploadProtocol = "protocol"
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(id, forKey: .id)
        try container.encode(path, forKey: .path)
        try container.encode(size, forKey: .size)
        try container.encode(sent, forKey: .sent)
        try container.encode(restarts, forKey: .restarts)
        try container.encode(bytesPerSecond, forKey: .bytesPerSecond)
        try container.encode(secondsLeft, forKey: .secondsLeft)
        try container.encode(uploadProtocol, forKey: .uploadProtocol)
    }
}
