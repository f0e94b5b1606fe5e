// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// Dates in HTTP fields (RFC 9110, section 5.6.7).
package enum HTTPDate {
    private static let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// The preferred form, such as `Sun, 06 Nov 1994 08:49:37 GMT`; parts of a second are dropped.
    package static func format(_ time: Timestamp) -> String {
        let date = time.civil
        let day = time.seconds / 86_400 - (time.seconds % 86_400 < 0 ? 1 : 0)
        let name = days[Int((day % 7 + 7) % 7)]
        return "\(name), \(padded(date.day, 2)) \(months[date.month - 1]) \(padded(date.year, 4)) "
            + "\(padded(date.hour, 2)):\(padded(date.minute, 2)):\(padded(date.second, 2)) GMT"
    }

    /// Reads the preferred form and both obsolete ones; nil for anything else.
    ///
    /// The name of the day is not compared with the date. Two-digit years are 1970 to 2069.
    package static func parse(_ value: String) -> Timestamp? {
        let words = trimmingOptionalWhitespace(value).split(separator: " ", omittingEmptySubsequences: true)
        switch words.count {
        case 6 where words[0].hasSuffix(",") && words[5] == "GMT":
            return make(day: words[1], month: words[2], year: number(words[3], digits: 4), time: words[4])
        case 4 where words[0].hasSuffix(",") && words[3] == "GMT":
            let parts = words[1].split(separator: "-", omittingEmptySubsequences: false)
            guard parts.count == 3, let short = number(parts[2], digits: 2) else { return nil }
            return make(day: parts[0], month: parts[1], year: short + (short < 70 ? 2000 : 1900), time: words[2])
        case 5:
            return make(day: words[2], month: words[1], year: number(words[4], digits: 4), time: words[3])
        default:
            return nil
        }
    }

    private static func make(day: Substring, month: Substring, year: Int?, time: Substring) -> Timestamp? {
        let parts = time.split(separator: ":", omittingEmptySubsequences: false)
        guard let year, let monthIndex = months.firstIndex(of: String(month)), parts.count == 3,
            let day = decimalNumber(day), (1...lastDay(month: monthIndex + 1, year: year)).contains(Int(day)),
            let hour = number(parts[0], digits: 2), let minute = number(parts[1], digits: 2),
            let second = number(parts[2], digits: 2), hour < 24, minute < 60, second <= 60
        else { return nil }
        let date = Timestamp.Civil(
            year: year,
            month: monthIndex + 1,
            day: Int(day),
            hour: hour,
            minute: minute,
            second: second
        )
        return Timestamp(date)
    }

    private static func number(_ text: Substring, digits: Int) -> Int? {
        guard text.utf8.count == digits else { return nil }
        return decimalNumber(text).map { Int($0) }
    }

    private static func lastDay(month: Int, year: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}
