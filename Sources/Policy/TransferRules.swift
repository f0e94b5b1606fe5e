// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How urgent work is.
package enum TransferClass: String, Hashable, Sendable {
    /// A person waits for it: the conditions of the machine do not hold it.
    case interactive
    case background
    /// It has time: it waits for external power and a network that costs nothing.
    case discretionary
}

/// Under which conditions the uploads of a volume go that nobody waits for.
package struct TransferRules: Hashable, Sendable {
    /// Whether they use networks that are known to be metered.
    package var allowsExpensive: Bool
    /// Whether they use networks on which the user wants little sent.
    package var allowsConstrained: Bool
    /// Whether they use mobile networks.
    package var allowsCellular: Bool
    /// Whether they go while the machine is set to save power.
    package var allowsPowerSaver: Bool
    /// Whether they are ``TransferClass/discretionary``.
    package var isDiscretionary: Bool
    /// From which size on one is, in bytes; nil: however large, it is not for its size.
    package var discretionarySize: Int64?
    /// Whether they wait for external power.
    package var requiresPower: Bool
    /// On battery they wait below this charge, in percent, 0 to 100.
    package var minimumCharge: Int
    /// The times at which they go; nil: at any.
    package var windows: TransferWindows?
    /// Nothing goes before that.
    package var notBefore: TimeRule?
    /// When it should have gone: see ``Policy/isDue(_:volume:now:)``.
    package var deadline: TimeRule?
    /// Higher goes first.
    package var priority: Int

    package init(
        allowsExpensive: Bool = false,
        allowsConstrained: Bool = false,
        allowsCellular: Bool = true,
        allowsPowerSaver: Bool = false,
        isDiscretionary: Bool = false,
        discretionarySize: Int64? = nil,
        requiresPower: Bool = false,
        minimumCharge: Int = 20,
        windows: TransferWindows? = nil,
        notBefore: TimeRule? = nil,
        deadline: TimeRule? = nil,
        priority: Int = 0
    ) {
        self.allowsExpensive = allowsExpensive
        self.allowsConstrained = allowsConstrained
        self.allowsCellular = allowsCellular
        self.allowsPowerSaver = allowsPowerSaver
        self.isDiscretionary = isDiscretionary
        self.discretionarySize = discretionarySize
        self.requiresPower = requiresPower
        self.minimumCharge = minimumCharge
        self.windows = windows
        self.notBefore = notBefore
        self.deadline = deadline
        self.priority = priority
    }

    /// Everything may go at any time.
    package static let permissive = TransferRules(
        allowsExpensive: true,
        allowsConstrained: true,
        allowsPowerSaver: true,
        minimumCharge: 0
    )

    package var transferClass: TransferClass { isDiscretionary ? .discretionary : .background }

    /// The same for what must not wait any longer for what its class asks for besides.
    package var risen: TransferRules {
        var rules = self
        rules.isDiscretionary = false
        return rules
    }

    /// The rules with what their class asks for besides.
    var inForce: TransferRules {
        guard isDiscretionary else { return self }
        var rules = self
        rules.allowsExpensive = false
        rules.allowsConstrained = false
        rules.allowsCellular = false
        rules.allowsPowerSaver = false
        rules.requiresPower = true
        return rules
    }
}
