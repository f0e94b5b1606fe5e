// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The Content-Range field in bytes (RFC 9110, section 14.4).
package struct ContentRange: Hashable, Sendable {
    /// The bytes in the message, never empty; nil in the form of a 416, `bytes */N`.
    package let range: ByteRange?
    /// The size of the whole representation, nil where it says `*`.
    package let completeLength: Int64?

    /// Creates a value; an empty range or one beyond the complete length gives nil.
    package init?(range: ByteRange?, completeLength: Int64?) {
        if let range {
            guard !range.isEmpty, range.upper <= completeLength ?? .max else { return nil }
        } else {
            guard completeLength != nil else { return nil }
        }
        self.range = range
        self.completeLength = completeLength
    }

    /// Reads a field value; nil unless it is well-formed and consistent.
    package init?(_ value: String) {
        let text = Array(trimmingOptionalWhitespace(value).utf8)
        guard text.count > 6, String(decoding: text[..<5], as: UTF8.self).lowercased() == "bytes", text[5] == 0x20
        else { return nil }
        guard let slash = text.firstIndex(of: 0x2F) else { return nil }
        let span = text[6..<slash]
        let length = text[(slash + 1)...]
        var complete: Int64?
        if !length.elementsEqual([0x2A]) {
            guard let number = decimalNumber(length) else { return nil }
            complete = number
        }
        if span.elementsEqual([0x2A]) {
            self.init(range: nil, completeLength: complete)
            return
        }
        guard let dash = span.firstIndex(of: 0x2D), let first = decimalNumber(span[..<dash]),
            let last = decimalNumber(span[(dash + 1)...]), last >= first
        else { return nil }
        self.init(range: ByteRange(first, last + 1), completeLength: complete)
    }

    /// The value as it stands in the field.
    package var fieldValue: String {
        let length = completeLength.map { String($0) } ?? "*"
        guard let range else { return "bytes */\(length)" }
        return "bytes \(range.lower)-\(range.upper - 1)/\(length)"
    }
}
