// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The document of `status --json`.
package struct StatusReport: Codable, Sendable {
    package var flusher: FlusherReport
    /// Every fact the decisions rest on, by name.
    package var conditions: [String: ConditionReport]
    package var volumes: [VolumeReport]

    package init(flusher: FlusherReport, conditions: [String: ConditionReport], volumes: [VolumeReport]) {
        self.flusher = flusher
        self.conditions = conditions
        self.volumes = volumes
    }
}

/// Whether a flusher runs.
package struct FlusherReport: Codable, Sendable, Hashable {
    package var running: Bool
    package var pid: Int32?
    /// Why uploads will not go on as one might expect, such as after a logout; nil: nothing is in the way.
    package var warning: String?

    package init(running: Bool, pid: Int32?, warning: String? = nil) {
        self.running = running
        self.pid = pid
        self.warning = warning
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(running, forKey: .running)
        try container.encode(pid, forKey: .pid)
        try container.encodeIfPresent(warning, forKey: .warning)
    }
}

/// A fact: what is known, from where, and for how long.
package struct ConditionReport: Codable, Sendable, Hashable {
    package var value: String
    package var source: String
    /// Seconds since it was last seen to be so.
    package var age: Double
    package var since: String?

    package init(value: String, source: String, age: Double, since: String? = nil) {
        self.value = value
        self.source = source
        self.age = age
        self.since = since
    }
}

/// One volume's line in the status.
package struct VolumeReport: Codable, Sendable, Hashable {
    package struct Pending: Codable, Sendable, Hashable {
        package var files: Int
        package var bytes: Int64

        package init(files: Int, bytes: Int64) {
            self.files = files
            self.bytes = bytes
        }
    }

    package struct Uploading: Codable, Sendable, Hashable {
        package var files: Int
        package var bytesDone: Int64
        package var bytesTotal: Int64

        package init(files: Int, bytesDone: Int64, bytesTotal: Int64) {
            self.files = files
            self.bytesDone = bytesDone
            self.bytesTotal = bytesTotal
        }

        private enum CodingKeys: String, CodingKey {
            case files
            case bytesDone = "bytes_done"
            case bytesTotal = "bytes_total"
        }
    }

    package struct Cache: Codable, Sendable, Hashable {
        package var bytes: Int64
        package var limit: Int64
        /// Blocks that were found damaged since it was mounted last, and were fetched again.
        package var damagedBlocks: Int
        /// Reads that were answered past the cache since then.
        package var uncachedReads: Int
        /// Why reads go past the cache now.
        package var warning: String?

        package init(
            bytes: Int64,
            limit: Int64,
            damagedBlocks: Int = 0,
            uncachedReads: Int = 0,
            warning: String? = nil
        ) {
            self.bytes = bytes
            self.limit = limit
            self.damagedBlocks = damagedBlocks
            self.uncachedReads = uncachedReads
            self.warning = warning
        }

        private enum CodingKeys: String, CodingKey {
            case bytes
            case limit
            case damagedBlocks = "damaged_blocks"
            case uncachedReads = "uncached_reads"
            case warning
        }

        package func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(bytes, forKey: .bytes)
            try container.encode(limit, forKey: .limit)
            try container.encode(damagedBlocks, forKey: .damagedBlocks)
            try container.encode(uncachedReads, forKey: .uncachedReads)
            try container.encode(warning, forKey: .warning)
        }
    }

    /// What content that is not sent yet takes on the disk.
    package struct Staging: Codable, Sendable, Hashable {
        package var bytes: Int64

        package init(bytes: Int64) {
            self.bytes = bytes
        }
    }

    package var id: String
    package var remote: String
    package var mountpoint: String?
    package var pending: Pending
    /// Nil from a flusher that does not tell.
    package var staging: Staging?
    package var uploading: Uploading
    /// Conflict copies made and not yet dismissed.
    package var conflicts: Int
    /// Pending files that need a person.
    package var attention: Int
    /// `online`, `offline`, `auth`, `unknown`.
    package var connection: String
    /// Why the volume cannot work at all, such as an unreadable journal.
    package var error: String?
    /// Why the machine's conditions hold its uploads; nil from a flusher that does not tell.
    package var holds: [UploadReport.Waiting]?
    /// How its uploads get on; nil from a flusher that does not tell, and from none.
    package var activity: ActivityReport?
    package var cache: Cache

    package init(
        id: String,
        remote: String,
        mountpoint: String?,
        pending: Pending,
        staging: Staging? = nil,
        uploading: Uploading,
        conflicts: Int,
        attention: Int = 0,
        connection: String = "unknown",
        error: String? = nil,
        holds: [UploadReport.Waiting]? = nil,
        cache: Cache
    ) {
        self.id = id
        self.remote = remote
        self.mountpoint = mountpoint
        self.pending = pending
        self.staging = staging
        self.uploading = uploading
        self.conflicts = conflicts
        self.attention = attention
        self.connection = connection
        self.error = error
        self.holds = holds
        self.cache = cache
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(id, forKey: .id)
        try container.encode(remote, forKey: .remote)
        try container.encode(mountpoint, forKey: .mountpoint)
        try container.encode(pending, forKey: .pending)
        try container.encode(staging, forKey: .staging)
        try container.encode(uploading, forKey: .uploading)
        try container.encode(conflicts, forKey: .conflicts)
        try container.encode(attention, forKey: .attention)
        try container.encode(connection, forKey: .connection)
        try container.encode(error, forKey: .error)
        try container.encode(holds ?? [], forKey: .holds)
        try container.encode(activity, forKey: .activity)
        try container.encode(cache, forKey: .cache)
    }
}
