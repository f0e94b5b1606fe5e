// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What is known of the way to a volume's remote.
package struct VolumeFacts: Hashable, Sendable {
    package enum Connection: String, Hashable, Sendable {
        case unknown
        case online
        /// The last requests did not get through: a network that is away, or a server that is down.
        case offline
        /// The network answers in its place, and wants a login first.
        case portal = "captive-portal"
    }

    package enum Authentication: String, Hashable, Sendable {
        case unknown
        case accepted
        /// The credentials are missing, wrong or expired.
        case refused
    }

    package var connection: Fact<Connection>
    package var authentication: Fact<Authentication>
    /// Whether the disk of the state folder has room for what an upload may have to fetch first.
    package var hasDiskSpace: Fact<Bool>
    /// Why the machine's conditions hold the volume's work, by the rules that it goes by: first those of the volume, then
    /// those of paths of their own.
    package var held: [HeldRules] = [HeldRules()]
    /// The disk or `staging_limit` has little room left for what is not sent.
    package var isUnderPressure = false
    /// How fast uploads went lately, in bytes a second; 0: unknown.
    package var rate: Double = 0

    /// What holds work by the volume's own rules.
    package var holds: [Waiting] { held[0].usual }

    package init(at now: Timestamp) {
        connection = Fact(.unknown, source: "none", at: now)
        authentication = Fact(.unknown, source: "none", at: now)
        hasDiskSpace = Fact(true, source: "none", at: now)
    }
}

/// Why the work that goes by the same rules is held now; see ``Policy/holds(_:rules:isLocal:at:)``.
package struct HeldRules: Hashable, Sendable {
    /// What holds it where it has time.
    package var discretionary: [Waiting]
    /// What holds it where it has not, or not any longer.
    package var risen: [Waiting]
    /// Whether it has time.
    package var isDiscretionary: Bool
    /// How much may go before it is held again.
    package var room: TransferRoom

    package init(
        discretionary: [Waiting] = [],
        risen: [Waiting] = [],
        isDiscretionary: Bool = false,
        room: TransferRoom = TransferRoom()
    ) {
        self.discretionary = discretionary
        self.risen = risen
        self.isDiscretionary = isDiscretionary
        self.room = room
    }

    /// What holds work by these rules alone.
    package var usual: [Waiting] { isDiscretionary ? discretionary : risen }
}

/// What the settings of a volume say.
package struct PolicySettings: Hashable, Sendable {
    /// How long a file must be left alone before its upload begins, in seconds.
    package var quietPeriod: Double
    /// No wait for another attempt is longer, in seconds; also what guards against a clock that was set back.
    package var longestBackoff: Double

    package init(quietPeriod: Double = 2, longestBackoff: Double = 300) {
        self.quietPeriod = quietPeriod
        self.longestBackoff = longestBackoff
    }
}

/// What the decision needs to know of one piece of work.
package struct WorkFacts: Hashable, Sendable {
    /// The last local change.
    package var changed: Timestamp
    package var isPaused: Bool
    package var notBefore: Timestamp?
    /// When to try again after a failure.
    package var nextAttempt: Timestamp?
    /// What must be done first, in words.
    package var dependency: String?
    /// As what ``dependency`` is told.
    package var dependencyReason = WaitingReason.dependency
    /// Asked for by a person: quiet period, backoff, not-before and the machine's conditions do not count.
    package var isForced: Bool
    /// Needs room on the local disk first.
    package var needsDiskSpace: Bool
    /// Which of the volume's rules it goes by, in ``VolumeFacts/held``.
    package var rules = 0
    /// When it should be at the remote.
    package var deadline: Timestamp?
    /// A person gave it time, although its rules do not.
    package var isDiscretionary = false
    /// How much is left to send, in bytes.
    package var remaining: Int64 = 0
    /// It goes in one piece: what is cut is sent again from the beginning.
    package var isWhole = false

    package init(
        changed: Timestamp,
        isPaused: Bool = false,
        notBefore: Timestamp? = nil,
        nextAttempt: Timestamp? = nil,
        dependency: String? = nil,
        isForced: Bool = false,
        needsDiskSpace: Bool = false
    ) {
        self.changed = changed
        self.isPaused = isPaused
        self.notBefore = notBefore
        self.nextAttempt = nextAttempt
        self.dependency = dependency
        self.isForced = isForced
        self.needsDiskSpace = needsDiskSpace
    }
}
