// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

extension Timestamp {
    /// The date and time in UTC: proleptic Gregorian year, month and day from 1, hour, minute, second.
    package struct Civil: Hashable, Sendable {
        package var year: Int
        package var month: Int
        package var day: Int
        package var hour: Int
        package var minute: Int
        package var second: Int

        package init(year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int) {
            self.year = year
            self.month = month
            self.day = day
            self.hour = hour
            self.minute = minute
            self.second = second
        }
    }

    /// This time in UTC.
    ///
    /// Days are counted from 0000-03-01, so that a leap day ends its year.
    package var civil: Civil {
        let days = seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400
        let time = Int(seconds - days * 86_400)
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = Int(shifted - era * 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return Civil(
            year: yearOfEra + Int(era) * 400 + (month <= 2 ? 1 : 0),
            month: month,
            day: dayOfYear - (153 * shiftedMonth + 2) / 5 + 1,
            hour: time / 3600,
            minute: time / 60 % 60,
            second: time % 60
        )
    }

    /// The time of a date in UTC; the fields are taken as they are, the caller has checked their ranges.
    package init(_ civil: Civil) {
        let year = Int64(civil.month <= 2 ? civil.year - 1 : civil.year)
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let shiftedMonth = Int64(civil.month > 2 ? civil.month - 3 : civil.month + 9)
        let dayOfYear = (153 * shiftedMonth + 2) / 5 + Int64(civil.day) - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        let days = era * 146_097 + dayOfEra - 719_468
        self.init(seconds: days * 86_400 + Int64(civil.hour) * 3600 + Int64(civil.minute) * 60 + Int64(civil.second))
    }

    /// The time as RFC 3339 in UTC with milliseconds, such as `2026-11-20T06:00:00.000Z`.
    package var rfc3339: String {
        let date = civil
        let milliseconds = Int(nanosecondsOfSecond / 1_000_000)
        return "\(padded(date.year, 4))-\(padded(date.month, 2))-\(padded(date.day, 2))T\(padded(date.hour, 2)):"
            + "\(padded(date.minute, 2)):\(padded(date.second, 2)).\(padded(milliseconds, 3))Z"
    }
}

extension Timestamp {
    /// Reads a date and time of RFC 3339 section 5.6, such as `2026-11-20T06:00:00Z` or `2026-11-20 07:00:00.5+01:00`.
    ///
    /// Nil for another text, for a date that no calendar has, and for years before 1970 or after 2200.
    package init?(rfc3339 text: String) {
        var rest = Substring(text)[...]
        func number(_ digits: Int, before mark: String) -> Int? {
            let field = rest.prefix(digits)
            guard field.utf8.count == digits, field.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
            rest = rest.dropFirst(digits)
            guard mark.isEmpty || rest.first.map({ mark.contains($0) }) == true else { return nil }
            rest = rest.dropFirst(mark.isEmpty ? 0 : 1)
            return Int(field)
        }
        guard let year = number(4, before: "-"), let month = number(2, before: "-"), let day = number(2, before: "Tt "),
            let hour = number(2, before: ":"), let minute = number(2, before: ":"), let second = number(2, before: ""),
            (1970...2200).contains(year), (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60,
            second <= 60
        else { return nil }
        let civil = Civil(year: year, month: month, day: day, hour: hour, minute: minute, second: min(second, 59))
        let time = Timestamp(civil)
        guard time.civil == civil, let nanoseconds = Self.fraction(&rest), let offset = Self.offset(rest) else {
            return nil
        }
        self.init(seconds: time.seconds - offset, nanoseconds: nanoseconds)
    }

    /// Takes `.` and digits from the front of a text, if they are there.
    private static func fraction(_ text: inout Substring) -> Int64? {
        guard text.first == "." else { return 0 }
        let digits = text.dropFirst().prefix { ("0"..."9").contains($0) }
        text = text.dropFirst(digits.count + 1)
        guard !digits.isEmpty else { return nil }
        return Int64((digits + "000000000").prefix(9))
    }

    /// Seconds ahead of UTC, of `Z` or `+HH:MM`.
    private static func offset(_ text: Substring) -> Int64? {
        if text == "Z" || text == "z" { return 0 }
        let parts = text.dropFirst().split(separator: ":", omittingEmptySubsequences: false)
        guard text.first == "+" || text.first == "-", parts.count == 2,
            parts.allSatisfy({ $0.utf8.count == 2 && $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }),
            let hours = Int64(parts[0]), let minutes = Int64(parts[1]), hours < 24, minutes < 60
        else { return nil }
        return (text.first == "-" ? -1 : 1) * (hours * 3600 + minutes * 60)
    }
}

/// A number in decimal digits with leading zeros up to `width`.
package func padded(_ value: Int, _ width: Int) -> String {
    let digits = String(value)
    return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
}
