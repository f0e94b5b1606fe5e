// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

extension Timetable {
    private static let days = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
    /// More entries than anybody writes.
    private static let limit = 1000

    /// Reads a rate or a timetable; nil when it is neither.
    package init?(_ text: String) {
        let words = text.split(separator: " ", omittingEmptySubsequences: true)
        guard !words.isEmpty, words.count <= Self.limit else { return nil }
        if words.count == 1, !words[0].contains(",") {
            guard let rate = Self.rate(words[0]) else { return nil }
            self.init(rate: rate.bytes)
            return
        }
        // By minute; entries with a day go before those without.
        var rates: [Int: (rate: Int64?, hasDay: Bool)] = [:]
        for word in words {
            let parts = word.split(separator: ",", omittingEmptySubsequences: false)
            guard parts.count == 2, let time = Self.time(parts[0]), let rate = Self.rate(parts[1]) else { return nil }
            for day in time.day.map({ [$0] }) ?? Array(0..<7) {
                let minute = day * 24 * 60 + time.minute
                if time.day == nil, rates[minute]?.hasDay == true { continue }
                rates[minute] = (rate.bytes, time.day != nil)
            }
        }
        self.init(entries: rates.keys.sorted().map { Entry(minute: $0, rate: rates[$0]?.rate ?? nil) })
    }

    /// A rate such as `512K`, `1.5M`, `10MiB/s`, `0` or `off`; `bytes` nil: no limit.
    ///
    /// A number without a unit is refused: rclone takes it for KiB, everything else here takes it for bytes.
    private static func rate(_ text: Substring) -> (bytes: Int64?, Void)? {
        var text = text.lowercased()
        if text == "off" || text == "0" { return (nil, ()) }
        if text.hasSuffix("/s") { text.removeLast(2) }
        let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        let shift: Int
        switch text.dropFirst(digits.count) {
        case "b": shift = 0
        case "k", "ki", "kib": shift = 10
        case "m", "mi", "mib": shift = 20
        case "g", "gi", "gib": shift = 30
        default: return nil
        }
        guard let number = Double(digits), number.isFinite, number >= 0, number < 1e6 else { return nil }
        let bytes = Int64(number * Double(1 << shift))
        return bytes >= TokenBucket.lowestRate ? (bytes, ()) : bytes == 0 ? (nil, ()) : nil
    }

    /// `19:00` or `Sat-19:00`: the minute of the day, and the day (0: Sunday) when it has one.
    private static func time(_ text: Substring) -> (day: Int?, minute: Int)? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard let clock = parts.last, parts.count <= 2 else { return nil }
        let numbers = clock.split(separator: ":", omittingEmptySubsequences: false)
        guard numbers.count == 2, numbers[1].count == 2, numbers.allSatisfy({ $0.allSatisfy(\.isNumber) }),
            let hour = Int(numbers[0]), let minute = Int(numbers[1]), (0..<24).contains(hour),
            (0..<60).contains(minute)
        else { return nil }
        guard parts.count == 2 else { return (nil, hour * 60 + minute) }
        let name = parts[0].lowercased()
        guard name.utf8.count >= 3, let day = days.firstIndex(where: { name.hasPrefix($0) }) else { return nil }
        let names = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]
        guard names[day].hasPrefix(name) else { return nil }
        return (day, hour * 60 + minute)
    }
}
