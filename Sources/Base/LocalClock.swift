// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What the clocks on the wall show, by which people say when uploads may go.
package protocol LocalClock: Sendable {
    /// How far local time is ahead of UTC at a moment, in seconds.
    func offset(at time: Timestamp) -> Int64
}

/// A clock that is always as far from UTC, in seconds.
package struct FixedClock: LocalClock {
    private let offset: Int64

    package init(offset: Int64 = 0) { self.offset = offset }

    package func offset(at time: Timestamp) -> Int64 { offset }
}

/// A moment as people see it.
package struct WallTime: Hashable, Sendable {
    package static let secondsOfDay: Int64 = 86_400

    /// Days since 1970-01-01 of local time.
    package var day: Int64
    /// Seconds since that day's midnight, 0..<86,400.
    package var second: Int64

    package init(day: Int64, second: Int64) {
        self.day = day
        self.second = second
    }

    package init(_ time: Timestamp, _ clock: any LocalClock) {
        let local = time.seconds + clock.offset(at: time)
        day = (local >= 0 ? local : local - Self.secondsOfDay + 1) / Self.secondsOfDay
        second = local - day * Self.secondsOfDay
    }

    /// 0 is Monday.
    package var weekday: Int { Self.weekday(of: day) }

    package static func weekday(of day: Int64) -> Int { Int(((day + 3) % 7 + 7) % 7) }

    /// Seconds since the midnight with which Sunday began.
    package var secondOfWeek: Int { (weekday + 1) % 7 * Int(Self.secondsOfDay) + Int(second) }

    /// The year and the month, from 1.
    package var month: (year: Int, month: Int) {
        let date = Timestamp(seconds: day * Self.secondsOfDay).civil
        return (date.year, date.month)
    }

    /// The moment at which the clocks show this.
    ///
    /// Where they show it twice, or never because they are put forward over it, one of the two moments next to it.
    package func moment(_ clock: any LocalClock) -> Timestamp {
        let local = day * Self.secondsOfDay + second
        let guess = Timestamp(seconds: local - clock.offset(at: Timestamp(seconds: local)))
        return Timestamp(seconds: local - clock.offset(at: guess))
    }
}
