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
        var text = Substring(fieldValue)
        while let first = text.utf8.first, first == 0x20 || first == 0x09 { text.removeFirst() }
        while let last = text.utf8.last, last == 0x20 || last == 0x09 { text.removeLast() }
        let weak = text.hasPrefix("W/")
        if weak { text.removeFirst(2) }
        if text.utf8.count >= 2, text.hasPrefix("\""), text.hasSuffix("\"") {
            text = text.dropFirst().dropLast()
        }
        guard !text.isEmpty, text.utf8.allSatisfy({ $0 == 0x21 || ($0 >= 0x23 && $0 != 0x7F) }) else { return nil }
        self.init(opaque: String(text), isWeak: weak)
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
