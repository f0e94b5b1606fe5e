// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What is told of an upload when few are asked for, as by `uploads why`.
package struct UploadDetails: Codable, Sendable, Hashable {
    /// How often it is held, by who does it: each is let go by itself.
    package struct Holds: Codable, Sendable, Hashable {
        /// Pauses of the upload, and of the places above it.
        package var user: Int
        /// Conditions of the machine, and rules.
        package var policy: Int

        package init(user: Int, policy: Int) {
            self.user = user
            self.policy = policy
        }
    }

    /// `interactive`, `background` or `discretionary`.
    package var transferClass: String
    /// How many uploads of all volumes go before it when nothing holds them; nil for one that runs or is not queued.
    package var rank: Int?
    /// Bytes that the remote acknowledged: they are not sent again.
    package var acknowledged: Int64
    package var holds: Holds
    package var restarts: Int
    package var bytesPerSecond: Int64
    package var secondsLeft: Double?
    /// What is set for the file itself, by the names of the configuration file; a flusher of before does not tell.
    package var settings: [String: String]?

    package init(
        transferClass: String,
        rank: Int?,
        acknowledged: Int64,
        holds: Holds,
        restarts: Int,
        bytesPerSecond: Int64,
        secondsLeft: Double?,
        settings: [String: String]? = nil
    ) {
        self.transferClass = transferClass
        self.rank = rank
        self.acknowledged = acknowledged
        self.holds = holds
        self.restarts = restarts
        self.bytesPerSecond = bytesPerSecond
        self.secondsLeft = secondsLeft
        self.settings = settings
    }

    private enum CodingKeys: String, CodingKey {
        case transferClass = "class"
        case rank
        case acknowledged
        case holds
        case restarts
        case bytesPerSecond = "bytes_per_second"
        case secondsLeft = "eta_seconds"
        case settings
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(transferClass, forKey: .transferClass)
        try container.encode(rank, forKey: .rank)
        try container.encode(acknowledged, forKey: .acknowledged)
        try container.encode(holds, forKey: .holds)
        try container.encode(restarts, forKey: .restarts)
        try container.encode(bytesPerSecond, forKey: .bytesPerSecond)
        try container.encode(secondsLeft, forKey: .secondsLeft)
        try container.encodeIfPresent(settings, forKey: .settings)
    }
}
