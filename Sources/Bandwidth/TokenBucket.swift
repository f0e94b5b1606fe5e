// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// A bucket that fills with tokens at a rate and that every byte takes one out of; a pure value of one number.
///
/// The number is the time at which what was taken so far is earned (the "theoretical arrival time" of the virtual
/// scheduling algorithm, ITU-T I.371): nothing has to be filled up as time passes, nothing adds up that could drift, and
/// processes can share a bucket that is one word. All times are nanoseconds of the monotonic clock; the rate, in bytes a
/// second, may change at any time.
package struct TokenBucket: Hashable, Sendable {
    /// How much the bucket holds, as the time in which it fills: 1/4 s.
    ///
    /// What a line may carry at once after a pause;
    /// with a whole second a rate would be passed by a tenth over ten seconds.
    package static let burst: Int64 = 250_000_000
    /// The most that may be owed.
    ///
    /// What is further ahead is of a machine that was started anew meanwhile.
    package static let longestDebt: Int64 = 60_000_000_000
    /// Rates below are this one: the smallest piece that is taken must be earned within the longest debt.
    package static let lowestRate: Int64 = 1024

    /// The time at which all that was taken is earned.
    package var earned: Int64

    /// A bucket that is full, or that is at the state another had.
    package init(earned: Int64 = 0) {
        self.earned = earned
    }

    /// How long until a class may take something; 0: now.
    ///
    /// Each class leaves so much in the bucket that whoever is more urgent finds some at once and, as long as it takes
    /// all there is, comes first.
    package func wait(_ kind: TrafficClass, now: Int64) -> Int64 {
        max(0, sound(now) + Self.reserve(kind) - now)
    }

    /// How many bytes a class finds in the bucket, besides what it leaves there.
    package func available(_ kind: TrafficClass, rate: Int64, now: Int64) -> Int64 {
        let time = min(Self.burst, now - sound(now)) - Self.reserve(kind)
        return time > 0 ? Int64(Double(time) / 1e9 * Double(max(Self.lowestRate, rate))) : 0
    }

    /// Takes as many bytes, whatever there is: what is not there is owed.
    package mutating func take(_ bytes: Int64, rate: Int64, now: Int64) {
        let start = max(sound(now), now - Self.burst)
        earned = min(start + Self.duration(of: bytes, rate: rate), now + Self.longestDebt)
    }

    /// Gives back bytes that were taken and not used.
    package mutating func giveBack(_ bytes: Int64, rate: Int64) {
        earned -= Self.duration(of: bytes, rate: rate)
    }

    /// How much is taken at once: 20 ms of the rate, so that many transfers get on side by side.
    package static func quantum(rate: Int64) -> Int64 { min(256 << 10, max(4 << 10, rate / 50)) }

    /// What a class leaves in the bucket, as time.
    private static func reserve(_ kind: TrafficClass) -> Int64 {
        switch kind {
        case .interactive: 0
        case .background: 60_000_000
        case .discretionary: 120_000_000
        }
    }

    /// The time it takes to earn so many bytes, rounded up.
    private static func duration(of bytes: Int64, rate: Int64) -> Int64 {
        Int64((Double(bytes) * 1e9 / Double(max(lowestRate, rate))).rounded(.up))
    }

    private func sound(_ now: Int64) -> Int64 { earned > now + Self.longestDebt ? now : earned }
}
