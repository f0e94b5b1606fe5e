// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Digests

/// What setxattr(2) may find where it is to put a value.
package enum ExtendedAttributeCondition: Sendable {
    case any
    /// `XATTR_CREATE`
    case absent
    /// `XATTR_REPLACE`
    case present
}

extension ExtendedAttributes {
    /// The most that the text may have.
    ///
    /// S3 allows 2,048 bytes of metadata in all, names included: these, `x-amz-meta-xattr`, and what mode, owner, time and
    /// device take at most (131 bytes). rclone's server allows 2,000, and counts other fields of the request that begin
    /// with `x-amz-`, too.
    package static let capacity = 1_700

    /// The value of a name; nil when there is none.
    package func value(of name: [UInt8]) -> [UInt8]? { pairs.last { $0.name == name }?.value }

    /// The names in the order of their bytes.
    package var names: [[UInt8]] { pairs.map(\.name) }

    /// These with one more, or with another value.
    ///
    /// Throws where the condition does not hold or the object has no room for them.
    package func setting(
        _ name: [UInt8],
        to value: [UInt8],
        _ condition: ExtendedAttributeCondition = .any
    ) throws(FileError) -> ExtendedAttributes {
        var pairs = pairs
        let isPresent = pairs.contains { $0.name == name }
        if isPresent, condition == .absent { throw .exists }
        if !isPresent, condition == .present { throw .noAttribute }
        pairs.removeAll { $0.name == name }
        let result = try Self.encode(pairs + [ExtendedAttributePair(name: name, value: value)])
        // What others wrote may be more than this writes, but not become more.
        guard result.text.utf8.count <= max(Self.capacity, text.utf8.count) else { throw .attributesTooLarge }
        return result
    }

    /// These without one; throws when there is no such one.
    package func removing(_ name: [UInt8]) throws(FileError) -> ExtendedAttributes {
        let rest = pairs.filter { $0.name != name }
        guard rest.count < pairs.count else { throw .noAttribute }
        return rest.isEmpty ? .none : try Self.encode(rest)
    }

    /// What the text tells, by name; nothing of what is of another form.
    private var pairs: [ExtendedAttributePair] {
        guard !isEmpty else { return [] }
        var reader = PairReader(percentDecoded(Array(text.utf8)))
        return reader.read().sorted { $0.name.lexicographicallyPrecedes($1.name) }
    }

    private static func encode(_ pairs: [ExtendedAttributePair]) throws(FileError) -> ExtendedAttributes {
        let sorted = pairs.sorted { $0.name.lexicographicallyPrecedes($1.name) }
        let fields = sorted.map { Array("\"".utf8) + $0.escapedName + Array("\":\"\(Base64.encode($0.value))\"".utf8) }
        let json = Array("{".utf8) + Array(fields.joined(separator: ",".utf8)) + Array("}".utf8)
        guard let result = ExtendedAttributes(text: percentEncoded(json)) else { throw .attributesTooLarge }
        return result
    }
}

private struct ExtendedAttributePair {
    var name: [UInt8]
    var value: [UInt8]

    /// The name within JSON.
    ///
    /// s3fs looks for commas and colons without regard to quotation marks and knows no escapes: what is escaped it carries
    /// along, by another name.
    var escapedName: [UInt8] {
        name.flatMap { byte -> [UInt8] in
            guard byte < 0x20 || "\"\\,:".utf8.contains(byte) else { return [byte] }
            return Array("\\u00\(Hexadecimal.encode([byte]))".utf8)
        }
    }
}

/// Reads an object of JSON whose values are texts: as bytes, since names need not be UTF-8.
private struct PairReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    mutating func read() -> [ExtendedAttributePair] {
        var pairs: [ExtendedAttributePair] = []
        guard take("{") else { return [] }
        repeat {
            guard let name = text(), take(":"), let value = text() else { return pairs }
            guard let bytes = Base64.decode(String(decoding: value, as: UTF8.self)), !name.isEmpty else { continue }
            pairs.removeAll { $0.name == name }
            pairs.append(ExtendedAttributePair(name: name, value: bytes))
        } while take(",")
        return pairs
    }

    /// Whether a mark comes next, which is taken then.
    private mutating func take(_ mark: Character) -> Bool {
        rest = rest.drop { " \t\r\n".utf8.contains($0) }
        guard let byte = rest.first, byte == mark.asciiValue else { return false }
        rest.removeFirst()
        return true
    }

    private mutating func text() -> [UInt8]? {
        guard take("\"") else { return nil }
        var bytes: [UInt8] = []
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "\""): return bytes
            case UInt8(ascii: "\\"):
                guard let escaped = escape() else { return nil }
                bytes += escaped
            default: bytes.append(byte)
            }
        }
        return nil
    }

    private mutating func escape() -> [UInt8]? {
        guard let kind = rest.popFirst() else { return nil }
        switch kind {
        case UInt8(ascii: "b"): return [0x08]
        case UInt8(ascii: "f"): return [0x0C]
        case UInt8(ascii: "n"): return [0x0A]
        case UInt8(ascii: "r"): return [0x0D]
        case UInt8(ascii: "t"): return [0x09]
        case UInt8(ascii: "u"):
            let digits = String(decoding: rest.prefix(4), as: UTF8.self)
            rest = rest.dropFirst(4)
            guard digits.utf8.count == 4, let scalar = UInt32(digits, radix: 16).flatMap(Unicode.Scalar.init) else {
                return nil
            }
            return Array(String(Character(scalar)).utf8)
        default: return [kind]
        }
    }
}

private func percentEncoded(_ bytes: [UInt8]) -> String {
    let plain = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/".utf8)
    var text: [UInt8] = []
    for byte in bytes {
        if plain.contains(byte) {
            text.append(byte)
        } else {
            text += Array("%\(Hexadecimal.encode([byte]).uppercased())".utf8)
        }
    }
    return String(decoding: text, as: UTF8.self)
}

/// A percent sign without two digits behind it stays.
private func percentDecoded(_ text: [UInt8]) -> [UInt8] {
    var bytes: [UInt8] = []
    var index = 0
    while index < text.count {
        if text[index] == UInt8(ascii: "%"), index + 2 < text.count, let high = Hexadecimal.value(of: text[index + 1]),
            let low = Hexadecimal.value(of: text[index + 2])
        {
            bytes.append(high << 4 | low)
            index += 3
        } else {
            bytes.append(text[index])
            index += 1
        }
    }
    return bytes
}
