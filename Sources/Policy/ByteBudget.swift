// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What went over networks that cost, this day and this month, of what may go; a pure value.
///
/// Days and months are those of local time. A clock that is set back gives nothing back: what went counts for the day
/// that it is then.
package struct ByteBudget: Hashable, Sendable {
    /// How much may go, in bytes; nil: any amount.
    package struct Limits: Hashable, Sendable {
        package var daily: Int64?
        package var monthly: Int64?

        package init(daily: Int64? = nil, monthly: Int64? = nil) {
            self.daily = daily
            self.monthly = monthly
        }

        package var isEmpty: Bool { daily == nil && monthly == nil }
    }

    /// The day that ``dayBytes`` went on, in days since 1970-01-01 of local time.
    package private(set) var day: Int64
    package private(set) var dayBytes: Int64
    /// The month that ``monthBytes`` went in: twelve times the year, and the month from 0.
    package private(set) var month: Int64
    package private(set) var monthBytes: Int64

    package init(day: Int64 = .min, dayBytes: Int64 = 0, month: Int64 = .min, monthBytes: Int64 = 0) {
        self.day = day
        self.dayBytes = max(0, dayBytes)
        self.month = month
        self.monthBytes = max(0, monthBytes)
    }

    /// Counts bytes that went.
    package mutating func note(_ bytes: Int64, at now: Timestamp, _ clock: any LocalClock) {
        turn(at: now, clock)
        dayBytes = Self.sum(dayBytes, bytes)
        monthBytes = Self.sum(monthBytes, bytes)
    }

    /// Begins a new day and a new month when their time has come.
    package mutating func turn(at now: Timestamp, _ clock: any LocalClock) {
        let wall = WallTime(now, clock)
        let month = Self.number(of: wall.month)
        if wall.day > day { dayBytes = 0 }
        if month > self.month { monthBytes = 0 }
        day = wall.day
        self.month = month
    }

    /// How many bytes may still go now; nil: any number.
    package func remaining(_ limits: Limits) -> Int64? {
        let left = [limits.daily.map { $0 - dayBytes }, limits.monthly.map { $0 - monthBytes }].compactMap { $0 }
        return left.min().map { max(0, $0) }
    }

    /// How many bytes may still go, until when there are no more, and how many there are then; nil: any number.
    ///
    /// In steps of a part of the limit, rounded down, so that it does not change with every byte.
    package func room(
        _ limits: Limits,
        at now: Timestamp,
        _ clock: any LocalClock
    ) -> (bytes: Int64, until: Timestamp, refill: Int64)? {
        let ends = Self.ends(after: now, clock)
        func left(_ limit: Int64, _ used: Int64) -> Int64 {
            let step = max(1, limit / Self.steps)
            return max(0, limit - used) / step * step
        }
        let refill = min(limits.daily ?? .max, limits.monthly ?? .max)
        let day = limits.daily.map { (left($0, dayBytes), ends.day, refill) }
        let month = limits.monthly.map { (left($0, monthBytes), ends.month, refill) }
        guard let day, let month else { return day ?? month }
        return month.0 <= day.0 ? month : day
    }

    private static let steps: Int64 = 64

    /// When the day and the month are over.
    package static func ends(after now: Timestamp, _ clock: any LocalClock) -> (day: Timestamp, month: Timestamp) {
        let wall = WallTime(now, clock)
        return (WallTime(day: wall.day + 1, second: 0).moment(clock), nextMonth(wall, clock))
    }

    /// Why nothing may go now, until the day or the month is over; nil: something may.
    ///
    /// `name` says what the budget is for, such as `*.iso`; nil: a volume, or all.
    package func hold(
        _ limits: Limits,
        at now: Timestamp,
        _ clock: any LocalClock,
        name: String? = nil
    ) -> Waiting? {
        let whose = name.map { " for \($0)" } ?? ""
        if let monthly = limits.monthly, monthBytes >= monthly {
            let end = Self.ends(after: now, clock).month
            return Waiting(.quota, since: now, until: end, detail: "of the month, \(monthly) bytes\(whose)")
        }
        guard let daily = limits.daily, dayBytes >= daily else { return nil }
        let end = Self.ends(after: now, clock).day
        return Waiting(.quota, since: now, until: end, detail: "of the day, \(daily) bytes\(whose)")
    }

    private static func nextMonth(_ wall: WallTime, _ clock: any LocalClock) -> Timestamp {
        let (year, month) = wall.month
        let next = Timestamp.Civil(
            year: month == 12 ? year + 1 : year,
            month: month == 12 ? 1 : month + 1,
            day: 1,
            hour: 0,
            minute: 0,
            second: 0
        )
        return WallTime(day: Timestamp(next).seconds / WallTime.secondsOfDay, second: 0).moment(clock)
    }

    private static func number(of month: (year: Int, month: Int)) -> Int64 {
        Int64(month.year) * 12 + Int64(month.month) - 1
    }

    private static func sum(_ left: Int64, _ right: Int64) -> Int64 {
        let (sum, overflow) = left.addingReportingOverflow(max(0, right))
        return overflow ? .max : sum
    }
}
