// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Bandwidth
internal import Policy

/// A setting's parsed value.
package enum OptionValue: Hashable, Sendable {
    case flag(Bool)
    case text(String)
    case number(Int64)
    case seconds(Double)

    /// Reads `text` as a value of `definition`; nil `text` is the bare word of a flag.
    package init(parsing text: String?, for definition: OptionDefinition, at place: String) throws(ConfigurationError) {
        let name = definition.name.rawValue
        guard let text else {
            guard definition.kind == .flag else {
                throw ConfigurationError(place, "\(name) needs a value: \(name)=\(definition.placeholder)")
            }
            self = .flag(true)
            return
        }
        guard let value = OptionValue.parse(text, definition.kind) else {
            throw ConfigurationError(place, "\(name)=\(text) is not \(definition.kind.expectation)")
        }
        if definition.name == .blockSize, case .number(let size) = value, size.nonzeroBitCount != 1 {
            throw ConfigurationError(place, "\(name)=\(text) is not a power of two")
        }
        self = value
    }

    private static func parse(_ text: String, _ kind: OptionKind) -> OptionValue? {
        switch kind {
        case .flag: parseFlag(text).map { .flag($0) }
        case .text: text.isEmpty ? nil : .text(text)
        case .rate: Timetable(text) == nil ? nil : .text(text)
        case .path: text.hasPrefix("/") && text.utf8.count < 4096 ? .text(text) : nil
        case .program: ArgumentWords.program(text) == nil ? nil : .text(text)
        case .loopback: ListeningPlace(text) == nil ? nil : .text(text)
        case .choice(let words): words.contains(text) ? .text(text) : nil
        case .number(let range): parseNumber(text, radix: 10, range)
        case .octal(let range): parseNumber(text, radix: 8, range)
        case .bytes(let range): parseBytes(text).flatMap { range.contains($0) ? .number($0) : nil }
        case .seconds(let range): parseSeconds(text).flatMap { range.contains($0) ? .seconds($0) : nil }
        case .window: TransferWindows(parsing: text) == nil ? nil : .text(text)
        case .moment: TimeRule(parsing: text) == nil ? nil : .text(text)
        }
    }

    private static func parseFlag(_ text: String) -> Bool? {
        switch text.lowercased() {
        case "true", "yes", "on", "1": true
        case "false", "no", "off", "0": false
        default: nil
        }
    }

    private static func parseNumber(_ text: String, radix: Int, _ range: ClosedRange<Int64>) -> OptionValue? {
        let digits = range.lowerBound < 0 && text.first == "-" ? text.dropFirst() : text[...]
        guard digits.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
        return Int64(text, radix: radix).flatMap { range.contains($0) ? .number($0) : nil }
    }

    /// Bytes from text such as `512`, `64K`, `10G` or `1GiB`; nil when it is none or too large.
    package static func parseBytes(_ text: String) -> Int64? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard let number = Int64(digits) else { return nil }
        let shift: Int64
        switch text.dropFirst(digits.count).lowercased() {
        case "", "b": shift = 0
        case "k", "kib": shift = 10
        case "m", "mib": shift = 20
        case "g", "gib": shift = 30
        case "t", "tib": shift = 40
        default: return nil
        }
        let (product, overflow) = number.multipliedReportingOverflow(by: 1 << shift)
        return overflow ? nil : product
    }

    /// Seconds from text such as `2`, `1.5s`, `500ms`, `10m`, `2h` or `1d`.
    package static func parseSeconds(_ text: String) -> Double? {
        let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        guard let number = Double(digits), number.isFinite else { return nil }
        switch text.dropFirst(digits.count) {
        case "", "s": return number
        case "ms": return number / 1000
        case "m": return number * 60
        case "h": return number * 3600
        case "d": return number * 86_400
        default: return nil
        }
    }
}

extension OptionKind {
    /// What a value has to be, for an error message and the documentation.
    package var expectation: String {
        switch self {
        case .flag: "true or false"
        case .text: "a text"
        case .path: "an absolute path"
        case .rate: "a rate such as 512K or 10M (bytes a second), off, or a timetable such as \"08:00,512K 19:00,off\""
        case .program: "a program's absolute path and its arguments"
        case .loopback: "a socket's absolute path, 127.0.0.1:PORT, [::1]:PORT or localhost:PORT"
        case .choice(let words): "one of " + words.joined(separator: ", ")
        case .number(let range): "a number from \(range.lowerBound) to \(range.upperBound)"
        case .octal(let range):
            "octal from \(String(range.lowerBound, radix: 8)) to \(String(range.upperBound, radix: 8))"
        case .bytes(let range): "a size from \(byteText(range.lowerBound)) to \(byteText(range.upperBound))"
        case .seconds(let range): "a time from \(secondText(range.lowerBound)) to \(secondText(range.upperBound))"
        case .window: TransferWindows.expectation
        case .moment: TimeRule.expectation
        }
    }
}

/// Bytes as the shortest text that the parser reads back.
package func byteText(_ bytes: Int64) -> String {
    for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] where bytes != 0 && bytes % (1 << shift) == 0 {
        return "\(bytes >> Int64(shift))\(unit)"
    }
    return "\(bytes)"
}

/// Seconds as the shortest text that the parser reads back.
package func secondText(_ seconds: Double) -> String {
    guard seconds >= 1 || seconds == 0 else { return "\(Int64((seconds * 1000).rounded()))ms" }
    guard seconds == seconds.rounded() else { return "\(seconds)s" }
    let whole = Int64(seconds)
    for (unit, name) in [(86_400, "d"), (3600, "h"), (60, "m")] where whole != 0 && whole % Int64(unit) == 0 {
        return "\(whole / Int64(unit))\(name)"
    }
    return "\(whole)s"
}
