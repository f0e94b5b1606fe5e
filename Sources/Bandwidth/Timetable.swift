// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// Rates by the time of the week, as people write them; a pure value.
///
/// The form is rclone's (`--bwlimit`, "Bandwidth limiting", rclone.org/docs): one rate for all times, such as `10M`, or
/// entries `TIME,RATE` separated by spaces, such as `08:00,512K 19:00,10M 23:00,off`; a time may have a day, such as
/// `Sat-08:00`, and an entry with a day goes before one without at the same time. Each entry counts until the next one;
/// the last of the week until the first. Times are those of the local clock.
package struct Timetable: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        /// Minutes since Sunday, 00:00.
        package var minute: Int
        /// Bytes a second; nil: no limit.
        package var rate: Int64?
    }

    package static let minutesOfWeek = 7 * 24 * 60

    /// By time, one at a time at most; one entry: always the same rate.
    package let entries: [Entry]

    /// The same rate at all times.
    package init(rate: Int64?) {
        entries = [Entry(minute: 0, rate: rate)]
    }

    init(entries: [Entry]) {
        self.entries = entries
    }

    /// The rate that counts at a minute of the week.
    package func rate(atMinute minute: Int) -> Int64? {
        (entries.last { $0.minute <= minute } ?? entries.last)?.rate
    }

    /// The rate that counts now.
    package func rate(at now: Timestamp, in zone: some LocalClock) -> Int64? {
        rate(atMinute: WallTime(now, zone).secondOfWeek / 60)
    }

    /// When another rate counts next; nil: never, or not within the next eight days.
    ///
    /// Clocks are put forward and back: what counts is what the clock on the wall shows, so an entry whose time is left
    /// out counts from the moment that skips it, and in an hour that comes twice what it says counts twice.
    package func nextSwitch(after now: Timestamp, in zone: some LocalClock) -> Timestamp? {
        let present = rate(at: now, in: zone)
        guard entries.contains(where: { $0.rate != present }) else { return nil }
        let minute: Int64 = 60
        var low = now.seconds - Int64(WallTime(now, zone).secondOfWeek) % minute
        let end = low + Int64(Self.minutesOfWeek + 24 * 60) * minute
        // Changes of the zone fall on quarters of an hour; in between the wall clock goes evenly.
        while low < end {
            let high = low + 900 - Int64(WallTime(Timestamp(seconds: low), zone).secondOfWeek) % 900
            if let time = firstSwitch(from: low, to: high, present, now, zone) { return time }
            low = high
        }
        return nil
    }

    /// The first minute in which another rate than `present` counts, later than `now`, among `low` < t <= `high`.
    private func firstSwitch(
        from low: Int64,
        to high: Int64,
        _ present: Int64?,
        _ now: Timestamp,
        _ zone: some LocalClock
    ) -> Timestamp? {
        let start = WallTime(Timestamp(seconds: low), zone).secondOfWeek / 60
        let stop = WallTime(Timestamp(seconds: high), zone).secondOfWeek / 60
        let span = (stop - start + Self.minutesOfWeek) % Self.minutesOfWeek
        let isEven = Int64(span) * 60 == high - low
        let hasEntry = entries.contains {
            (1...max(1, span)).contains(($0.minute - start + Self.minutesOfWeek) % Self.minutesOfWeek)
        }
        guard hasEntry || !isEven || rate(atMinute: stop) != present else { return nil }
        for time in stride(from: low + 60, through: high, by: 60) {
            let time = Timestamp(seconds: time)
            if time > now, rate(at: time, in: zone) != present { return time }
        }
        return nil
    }
}
