// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Structured field values (RFC 9651): the items and dictionaries that HTTP fields of today are made of.
///
/// Reading is strict: anything the RFC's parsing algorithm refuses gives nil, and so does a field
/// longer than ``lengthLimit`` or with more than ``memberLimit`` members.
package enum StructuredFields {
    /// The longest field value read, in bytes, all its lines together.
    package static let lengthLimit = 8192
    /// The most members of a dictionary, an inner list or a parameter list.
    package static let memberLimit = 256
    /// The largest magnitude of an Integer: 15 decimal digits.
    package static let integerLimit: Int64 = 999_999_999_999_999

    /// A bare item, without its parameters.
    package enum BareItem: Hashable, Sendable {
        case integer(Int64)
        /// A Decimal in thousandths.
        case decimal(thousandths: Int64)
        case string(String)
        case token(String)
        case bytes([UInt8])
        case boolean(Bool)
        /// Seconds since 1970-01-01T00:00:00Z.
        case date(Int64)
        case displayString(String)
    }

    /// The value of a dictionary's member; parameters are checked and dropped.
    package enum Member: Hashable, Sendable {
        case item(BareItem)
        case innerList([BareItem])

        /// The member's Integer, nil when it is anything else.
        package var integer: Int64? {
            if case .item(.integer(let value)) = self { value } else { nil }
        }

        /// The member's Byte Sequence, nil when it is anything else.
        package var bytes: [UInt8]? {
            if case .item(.bytes(let value)) = self { value } else { nil }
        }
    }

    /// Reads a field that is an Item (RFC 9651, section 4.2.3); its lines must be exactly one value.
    package static func item(_ lines: [String]) -> BareItem? {
        guard var parser = StructuredFieldsParser(lines: lines) else { return nil }
        parser.skipSpaces()
        guard let item = parser.parameterizedItem() else { return nil }
        parser.skipSpaces()
        return parser.isAtEnd ? item : nil
    }

    /// Reads a field that is an Integer; nil for a missing or bad field and for any other type.
    package static func integer(_ fields: HTTPFields, _ name: String) -> Int64? {
        guard case .integer(let value)? = item(fields.values(name)) else { return nil }
        return value
    }

    /// Reads a field that is a Boolean; nil for a missing or bad field and for any other type.
    package static func boolean(_ fields: HTTPFields, _ name: String) -> Bool? {
        guard case .boolean(let value)? = item(fields.values(name)) else { return nil }
        return value
    }

    /// Reads a field that is a Dictionary (RFC 9651, section 4.2.2); of equal keys the last one counts.
    ///
    /// A missing field gives an empty dictionary, a bad one nil.
    package static func dictionary(_ fields: HTTPFields, _ name: String) -> [String: Member]? {
        guard var parser = StructuredFieldsParser(lines: fields.values(name)) else { return nil }
        return parser.dictionary()
    }

    /// An Integer as a field value; values beyond ``integerLimit`` are cut to it.
    package static func serialized(_ value: Int64) -> String {
        String(min(max(value, -integerLimit), integerLimit))
    }

    /// A Boolean as a field value.
    package static func serialized(_ value: Bool) -> String { value ? "?1" : "?0" }

    /// A Byte Sequence as a field value.
    package static func serialized(_ value: [UInt8]) -> String { ":" + Base64.encoded(value) + ":" }

    /// A Dictionary of Integers as a field value, in the given order.
    ///
    /// The keys must be valid keys.
    package static func serialized(_ members: [(key: String, value: Int64)]) -> String {
        members.map { "\($0.key)=\(serialized($0.value))" }.joined(separator: ", ")
    }
}
