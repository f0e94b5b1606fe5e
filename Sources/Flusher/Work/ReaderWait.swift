// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How long the deletion or replacement of an object waits for programs that still read it here: a pure value, told of
/// what is found at each look; times are monotonic seconds.
package struct ReaderWait: Hashable, Sendable {
    /// What is to be done to the object.
    package enum Change: Hashable, Sendable {
        /// Nobody is the worse for a late one.
        case removal
        /// Others see the old content until it is done.
        case replacement
    }

    package enum Finding: Hashable, Sendable {
        case free
        case held
        /// It could not be found out.
        case unknown
    }

    package enum Decision: Hashable, Sendable {
        case go
        /// Look again after so many seconds.
        case wait(Double)
    }

    /// How long readers are waited for, in seconds.
    package struct Patience: Hashable, Sendable {
        /// Of a replacement, and of anything while nothing can be found out.
        package var usual: Double
        /// Of anything that somebody waits for.
        package var ofWaiters: Double

        package init(usual: Double = 600, ofWaiters: Double = 30) {
            self.usual = usual
            self.ofWaiters = ofWaiters
        }
    }

    /// Between two looks, in seconds: what was closed just now is found soon.
    private static let pauses = 0.2...1.0
    /// The longest pause where nobody is the worse for a late change, which may wait for days.
    private static let longestPause = 10.0

    private let patience: Patience
    private var began: Double?
    private var replacingSince: Double?
    private var blindSince: Double?
    private var awaitedSince: Double?

    package init(_ patience: Patience = Patience()) {
        self.patience = patience
    }

    /// Takes in what was found, and says whether the change is to be made now.
    ///
    /// Who is told to wait asks at once when somebody begins to wait for the change.
    package mutating func decide(_ finding: Finding, _ change: Change, isAwaited: Bool, at now: Double) -> Decision {
        replacingSince = change == .replacement ? replacingSince ?? now : nil
        blindSince = finding == .unknown ? blindSince ?? now : nil
        awaitedSince = isAwaited ? awaitedSince ?? now : nil
        guard finding != .free else { return .go }
        let start = began ?? now
        began = start
        let ends = [
            replacingSince.map { $0 + patience.usual },
            blindSince.map { $0 + patience.usual },
            awaitedSince.map { $0 + patience.ofWaiters },
        ]
        let end = ends.compactMap { $0 }.min() ?? .infinity
        guard now < end else { return .go }
        let longest = change == .removal && !isAwaited ? Self.longestPause : Self.pauses.upperBound
        let pause = min(longest, max(Self.pauses.lowerBound, (now - start) / 4))
        return .wait(min(pause, end - now))
    }
}
