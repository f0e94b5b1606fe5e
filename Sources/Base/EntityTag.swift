// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// An entity tag: the validator of one version of an object (RFC 9110, section 8.8.3).
package struct EntityTag: Hashable, Sendable, CustomStringConvertible {
    /// The opaque characters between the quotes.
    package let opaque: String
    /// Whether the tag was marked `W/`: equal content is then not promised byte by byte.
    package let isWeak: Bool

    package init(opaque: String, isWeak: Bool = false) {
        self.opaque = opaque
        self.isWeak = isWeak
    }

    /// Reads a field value; quotes may be missing, as some object stores leave them out.
    ///
    /// Returns nil for an empty tag and for characters outside the RFC's `etagc`.
    package init?(fieldValue: String) {
        // By bytes: a listing has a thousand of them.
        let quote = UInt8(ascii: "\"")
        var text = Array(fieldValue.utf8)[...]
        while let first = text.first, first == 0x20 || first == 0x09 { text.removeFirst() }
        while let last = text.last, last == 0x20 || last == 0x09 { text.removeLast() }
        let weak = text.starts(with: [UInt8(ascii: "W"), UInt8(ascii: "/")])
        if weak { text.removeFirst(2) }
        if text.count >= 2, text.first == quote, text.last == quote { text = text.dropFirst().dropLast() }
        guard !text.isEmpty, text.allSatisfy({ $0 == 0x21 || ($0 >= 0x23 && $0 != 0x7F) }) else { return nil }
        self.init(opaque: String(decoding: text, as: UTF8.self), isWeak: weak)
    }

    /// The tag as it stands in a header field, quoted.
    package var fieldValue: String { (isWeak ? "W/\"" : "\"") + opaque + "\"" }

    /// Whether both tags are strong and equal (RFC 9110, section 8.8.3.2).
    package func stronglyMatches(_ other: EntityTag) -> Bool {
        !isWeak && !other.isWeak && opaque == other.opaque
    }

    /// Whether the opaque parts are equal, weak or not.
    package func weaklyMatches(_ other: EntityTag) -> Bool { opaque == other.opaque }

    package var description: String { fieldValue }
}
