// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The parsing algorithm of RFC 9651, section 4.2, over one field's bytes.
///
/// Every function returns nil where the RFC says to fail parsing.
struct StructuredFieldsParser {
    private var rest: ArraySlice<UInt8>

    /// Joins the lines of a field; nil when they are too long, missing altogether, or not ASCII.
    init?(lines: [String]) {
        var bytes: [UInt8] = []
        for (index, line) in lines.enumerated() {
            if index > 0 { bytes += Array(", ".utf8) }
            bytes += Array(line.utf8)
            guard bytes.count <= StructuredFields.lengthLimit else { return nil }
        }
        guard bytes.allSatisfy({ $0 < 0x80 }) else { return nil }
        rest = bytes[...]
    }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func skipSpaces() {
        rest = rest.drop { $0 == 0x20 }
    }

    private mutating func skipOptionalWhitespace() {
        rest = rest.drop { $0 == 0x20 || $0 == 0x09 }
    }

    private mutating func take(_ character: Character) -> Bool {
        guard let byte = character.asciiValue, rest.first == byte else { return false }
        rest.removeFirst()
        return true
    }

    private mutating func takeWhile(_ accepted: (UInt8) -> Bool) -> ArraySlice<UInt8> {
        let taken = rest.prefix(while: accepted)
        rest = rest[taken.endIndex...]
        return taken
    }

    // MARK: dictionaries and lists

    mutating func dictionary() -> [String: StructuredFields.Member]? {
        var members: [String: StructuredFields.Member] = [:]
        skipSpaces()
        while !rest.isEmpty {
            guard members.count < StructuredFields.memberLimit, let key = key(), let value = member() else {
                return nil
            }
            members[key] = value
            skipOptionalWhitespace()
            guard !rest.isEmpty else { break }
            guard take(",") else { return nil }
            skipOptionalWhitespace()
            guard !rest.isEmpty else { return nil }
        }
        return members
    }

    private mutating func member() -> StructuredFields.Member? {
        guard take("=") else {
            return parameters() ? .item(.boolean(true)) : nil
        }
        if rest.first == UInt8(ascii: "(") {
            return innerList().map { .innerList($0) }
        }
        return parameterizedItem().map { .item($0) }
    }

    private mutating func innerList() -> [StructuredFields.BareItem]? {
        guard take("(") else { return nil }
        var items: [StructuredFields.BareItem] = []
        while items.count <= StructuredFields.memberLimit {
            skipSpaces()
            if take(")") { return parameters() ? items : nil }
            guard let item = parameterizedItem() else { return nil }
            items.append(item)
            guard rest.first == 0x20 || rest.first == UInt8(ascii: ")") else { return nil }
        }
        return nil
    }

    private mutating func key() -> String? {
        guard let first = rest.first, Self.isLower(first) || first == UInt8(ascii: "*") else { return nil }
        let bytes = takeWhile { Self.isLower($0) || Self.isDigit($0) || "_-.*".utf8.contains($0) }
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: items

    mutating func parameterizedItem() -> StructuredFields.BareItem? {
        guard let item = bareItem(), parameters() else { return nil }
        return item
    }

    private mutating func parameters() -> Bool {
        for _ in 0..<StructuredFields.memberLimit {
            guard take(";") else { return true }
            skipSpaces()
            guard key() != nil else { return false }
            if take("="), bareItem() == nil { return false }
        }
        return false
    }

    private mutating func bareItem() -> StructuredFields.BareItem? {
        guard let first = rest.first else { return nil }
        switch first {
        case UInt8(ascii: "-"), 0x30...0x39: return number()
        case UInt8(ascii: "\""): return string()
        case UInt8(ascii: ":"): return byteSequence()
        case UInt8(ascii: "?"): return boolean()
        case UInt8(ascii: "@"): return date()
        case UInt8(ascii: "%"): return displayString()
        case UInt8(ascii: "*"), 0x41...0x5A, 0x61...0x7A: return token()
        default: return nil
        }
    }

    private mutating func number() -> StructuredFields.BareItem? {
        let sign: Int64 = take("-") ? -1 : 1
        let whole = takeWhile(Self.isDigit)
        guard !whole.isEmpty, whole.count <= 15, let integer = Self.decimal(whole) else { return nil }
        guard take(".") else { return .integer(sign * integer) }
        let fraction = takeWhile(Self.isDigit)
        guard whole.count <= 12, (1...3).contains(fraction.count), let digits = Self.decimal(fraction) else {
            return nil
        }
        let scale: Int64 = fraction.count == 1 ? 100 : fraction.count == 2 ? 10 : 1
        return .decimal(thousandths: sign * (integer * 1000 + digits * scale))
    }

    private mutating func string() -> StructuredFields.BareItem? {
        guard take("\"") else { return nil }
        var bytes: [UInt8] = []
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "\""): return .string(String(decoding: bytes, as: UTF8.self))
            case UInt8(ascii: "\\"):
                guard let escaped = rest.popFirst(), "\"\\".utf8.contains(escaped) else { return nil }
                bytes.append(escaped)
            case 0x20...0x7E: bytes.append(byte)
            default: return nil
            }
        }
        return nil
    }

    private mutating func byteSequence() -> StructuredFields.BareItem? {
        guard take(":") else { return nil }
        let text = takeWhile { $0 != UInt8(ascii: ":") }
        guard take(":"), let bytes = Base64.decoded(text) else { return nil }
        return .bytes(bytes)
    }

    private mutating func boolean() -> StructuredFields.BareItem? {
        guard take("?") else { return nil }
        if take("1") { return .boolean(true) }
        return take("0") ? .boolean(false) : nil
    }

    private mutating func date() -> StructuredFields.BareItem? {
        guard take("@"), case .integer(let seconds)? = number() else { return nil }
        return .date(seconds)
    }

    private mutating func displayString() -> StructuredFields.BareItem? {
        guard take("%"), take("\"") else { return nil }
        var bytes: [UInt8] = []
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "\""): return String(validating: bytes, as: UTF8.self).map { .displayString($0) }
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst().flatMap(Self.hexadecimal),
                    let low = rest.popFirst().flatMap(Self.hexadecimal)
                else { return nil }
                bytes.append(high << 4 | low)
            case 0x20...0x7E: bytes.append(byte)
            default: return nil
            }
        }
        return nil
    }

    private mutating func token() -> StructuredFields.BareItem? {
        let bytes = takeWhile { Self.isLetter($0) || Self.isDigit($0) || "!#$%&'*+-.^_`|~:/".utf8.contains($0) }
        return .token(String(decoding: bytes, as: UTF8.self))
    }

    // MARK: characters

    private static func isLower(_ byte: UInt8) -> Bool { byte >= 0x61 && byte <= 0x7A }
    private static func isLetter(_ byte: UInt8) -> Bool { isLower(byte | 0x20) }
    private static func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }

    private static func decimal(_ digits: ArraySlice<UInt8>) -> Int64? {
        Int64(String(decoding: digits, as: UTF8.self))
    }

    /// The value of a lower-case hexadecimal digit, the only case a Display String allows.
    private static func hexadecimal(_ byte: UInt8) -> UInt8? {
        if isDigit(byte) { return byte - 0x30 }
        return byte >= 0x61 && byte <= 0x66 ? byte - 0x61 + 10 : nil
    }
}
