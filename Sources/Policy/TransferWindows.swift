// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The times of the week at which uploads may go, such as `22:00-06:00` or `Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00`;
/// a pure value.
///
/// They are local time: a window from 22:00 to 06:00 is an hour shorter in the night in which clocks are put forward.
/// One that goes over midnight belongs to the day on which it begins.
package struct TransferWindows: Hashable, Sendable {
    private struct Window: Hashable, Sendable {
        /// The weekdays on which it begins, 0 is Monday.
        var days: Set<Int>
        /// Seconds since midnight.
        var start: Int64
        /// In seconds, 1 to a day.
        var length: Int64
    }

    /// The most windows that a text may have.
    package static let limit = 32
    package static let expectation = "times such as 22:00-06:00 or Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00"
    package static let dayNames = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

    private let windows: [Window]

    /// Reads windows that commas separate; nil for another text.
    package init?(parsing text: String) {
        let items = text.split(separator: ",", omittingEmptySubsequences: false)
        guard items.count <= Self.limit else { return nil }
        var windows: [Window] = []
        for item in items {
            guard let window = Self.window(item) else { return nil }
            windows.append(window)
        }
        self.windows = windows
    }

    /// Whether uploads may go at a time.
    package func isOpen(at time: Timestamp, _ clock: any LocalClock) -> Bool {
        let wall = WallTime(time, clock)
        return windows.contains { window in
            (0...1).contains { past in
                let second = wall.second + Int64(past) * WallTime.secondsOfDay
                return window.days.contains(WallTime.weekday(of: wall.day - Int64(past)))
                    && (window.start..<window.start + window.length).contains(second)
            }
        }
    }

    /// The first moment after `time` at which a window opens.
    package func nextOpening(after time: Timestamp, _ clock: any LocalClock) -> Timestamp? {
        boundaries(around: time, clock).map(\.start).filter { $0 > time }.min()
    }

    /// When the time in which uploads may go ends, where it goes on at `time`; nil: it does not end within a week.
    package func closing(after time: Timestamp, _ clock: any LocalClock) -> Timestamp? {
        let ends = boundaries(around: time, clock).map(\.end).filter { $0 > time }.sorted()
        return ends.first { !isOpen(at: $0, clock) }
    }

    /// The moments at which the windows of the next days begin and end.
    private func boundaries(around time: Timestamp, _ clock: any LocalClock) -> [(start: Timestamp, end: Timestamp)] {
        let today = WallTime(time, clock).day
        return (today - 1...today + 8).flatMap { day in
            windows.filter { $0.days.contains(WallTime.weekday(of: day)) }.map { window in
                let end = window.start + window.length
                return (
                    WallTime(day: day, second: window.start).moment(clock),
                    WallTime(day: day, second: end).moment(clock)
                )
            }
        }
    }

    // MARK: parsing

    private static func window(_ text: Substring) -> Window? {
        let words = text.split(separator: " ")
        guard let times = words.last, words.count <= 2 else { return nil }
        let days = words.count == 2 ? Self.days(words[0]) : Set(0..<7)
        let ends = times.split(separator: "-", omittingEmptySubsequences: false)
        guard let days, ends.count == 2, let start = timeOfDay(ends[0]), let end = timeOfDay(ends[1]),
            start < WallTime.secondsOfDay, start != end
        else { return nil }
        return Window(days: days, start: start, length: end > start ? end - start : end + WallTime.secondsOfDay - start)
    }

    /// `Mon` or `Fri-Mon`.
    private static func days(_ text: Substring) -> Set<Int>? {
        let ends = text.split(separator: "-", omittingEmptySubsequences: false).map { name in
            dayNames.firstIndex(of: name.lowercased())
        }
        guard let first = ends.first ?? nil, let last = ends.last ?? nil, ends.count <= 2 else { return nil }
        return Set((0...(last - first + 7) % 7).map { (first + $0) % 7 })
    }

    /// Seconds since midnight of `H:MM` or `HH:MM`, up to `24:00`.
    package static func timeOfDay(_ text: Substring) -> Int64? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, (1...2).contains(parts[0].utf8.count), parts[1].utf8.count == 2,
            parts.allSatisfy({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }),
            let hour = Int64(parts[0]), let minute = Int64(parts[1]), minute < 60
        else { return nil }
        let seconds = hour * 3600 + minute * 60
        return seconds <= WallTime.secondsOfDay ? seconds : nil
    }
}
