// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import HTTPWire

/// A JSON document (RFC 8259) as far as index pages need it: strings are bytes, numbers are whole or dropped.
package enum JSONValue: Hashable, Sendable {
    case object([String: JSONValue])
    case array([JSONValue])
    case string([UInt8])
    case number(Int64)
    case boolean(Bool)
    /// `null`, and numbers that are no whole ones.
    case nothing

    /// Reads a document; throws for anything that is not JSON, nested deeper than 8, or above `limit` values.
    package init(_ document: [UInt8], limit: Int = 4_000_000) throws(ListingProblem) {
        var reader = JSONReader(document, limit: limit)
        self = try reader.document()
    }

    package subscript(name: String) -> JSONValue? {
        if case .object(let members) = self { return members[name] }
        return nil
    }

    package var bytes: [UInt8]? {
        if case .string(let bytes) = self { return bytes }
        return nil
    }

    package var number: Int64? {
        if case .number(let number) = self { return number }
        return nil
    }
}

/// Reads one document from its beginning to its end.
private struct JSONReader {
    private static let depth = 8
    private let bytes: [UInt8]
    private var position = 0
    private var left: Int

    init(_ bytes: [UInt8], limit: Int) {
        self.bytes = bytes
        left = limit
    }

    mutating func document() throws(ListingProblem) -> JSONValue {
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { position = 3 }
        let value = try value(depth: 0)
        skipSpace()
        guard position == bytes.count else { throw problem("something behind the end of") }
        return value
    }

    private func problem(_ what: String) -> ListingProblem { ListingProblem("\(what) the JSON at byte \(position)") }

    private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func skipSpace() {
        while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D { position += 1 }
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        skipSpace()
        guard next == byte else { return false }
        position += 1
        return true
    }

    private mutating func value(depth: Int) throws(ListingProblem) -> JSONValue {
        skipSpace()
        left -= 1
        guard depth <= Self.depth, left >= 0 else { throw problem("too much in") }
        switch next {
        case UInt8(ascii: "{"): return .object(try members(depth))
        case UInt8(ascii: "["): return .array(try elements(depth))
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .boolean(true))
        case UInt8(ascii: "f"): return try word("false", .boolean(false))
        case UInt8(ascii: "n"): return try word("null", .nothing)
        default: return try number()
        }
    }

    private mutating func word(_ text: StaticString, _ value: JSONValue) throws(ListingProblem) -> JSONValue {
        let word = text.withUTF8Buffer { Array($0) }
        guard bytes[position...].starts(with: word) else { throw problem("a strange word in") }
        position += word.count
        return value
    }

    private mutating func number() throws(ListingProblem) -> JSONValue {
        let start = position
        while let byte = next, (0x30...0x39).contains(byte) || [0x2B, 0x2D, 0x2E, 0x45, 0x65].contains(byte) {
            position += 1
        }
        guard position > start else { throw problem("something strange in") }
        return decimalNumber(bytes[start..<position]).map { .number($0) } ?? .nothing
    }

    private mutating func elements(_ depth: Int) throws(ListingProblem) -> [JSONValue] {
        position += 1
        var values: [JSONValue] = []
        if take(UInt8(ascii: "]")) { return values }
        repeat { values.append(try value(depth: depth + 1)) } while take(UInt8(ascii: ","))
        guard take(UInt8(ascii: "]")) else { throw problem("an unfinished array in") }
        return values
    }

    private mutating func members(_ depth: Int) throws(ListingProblem) -> [String: JSONValue] {
        position += 1
        var members: [String: JSONValue] = [:]
        if take(UInt8(ascii: "}")) { return members }
        repeat {
            skipSpace()
            guard next == UInt8(ascii: "\"") else { throw problem("a member without a name in") }
            let name = String(decoding: try string(), as: UTF8.self)
            guard take(UInt8(ascii: ":")) else { throw problem("a member without a value in") }
            members[name] = try value(depth: depth + 1)
        } while take(UInt8(ascii: ","))
        guard take(UInt8(ascii: "}")) else { throw problem("an unfinished object in") }
        return members
    }

    private mutating func string() throws(ListingProblem) -> [UInt8] {
        position += 1
        var text: [UInt8] = []
        while let byte = next {
            position += 1
            switch byte {
            case UInt8(ascii: "\""): return text
            case UInt8(ascii: "\\"): text += try escape()
            case 0..<0x20: throw problem("a control character in a string of")
            default: text.append(byte)
            }
        }
        throw problem("an unfinished string in")
    }

    private mutating func escape() throws(ListingProblem) -> [UInt8] {
        guard let byte = next else { throw problem("an unfinished string in") }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return [byte]
        case UInt8(ascii: "b"): return [0x08]
        case UInt8(ascii: "f"): return [0x0C]
        case UInt8(ascii: "n"): return [0x0A]
        case UInt8(ascii: "r"): return [0x0D]
        case UInt8(ascii: "t"): return [0x09]
        case UInt8(ascii: "u"): return Array(String(try scalar()).utf8)
        default: throw problem("a strange escape in")
        }
    }

    /// The character of `\uXXXX`, or of two that make a surrogate pair; U+FFFD for half a pair.
    private mutating func scalar() throws(ListingProblem) -> UnicodeScalar {
        let first = try unit()
        guard (0xD800..<0xDC00).contains(first), bytes[position...].starts(with: [0x5C, 0x75]) else {
            return UnicodeScalar(first) ?? "\u{FFFD}"
        }
        position += 2
        let second = try unit()
        guard (0xDC00..<0xE000).contains(second) else { return "\u{FFFD}" }
        return UnicodeScalar(0x1_0000 + (first - 0xD800) << 10 + (second - 0xDC00)) ?? "\u{FFFD}"
    }

    private mutating func unit() throws(ListingProblem) -> UInt32 {
        let digits = bytes[position...].prefix(4)
        guard digits.count == 4, let value = UInt32(String(decoding: digits, as: UTF8.self), radix: 16),
            digits.first != 0x2B
        else { throw problem("a strange escape in") }
        position += 4
        return value
    }
}
