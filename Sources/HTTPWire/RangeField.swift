// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The Range request field in bytes (RFC 9110, section 14.2).
package struct RangeField: Hashable, Sendable {
    /// One range as the client wrote it, before the size is known.
    package enum Specification: Hashable, Sendable {
        /// `first-last`, both inclusive.
        case interval(first: Int64, last: Int64)
        /// `first-`: to the end.
        case from(Int64)
        /// `-count`: the last bytes.
        case suffix(Int64)
    }

    /// What a server does with the field.
    package enum Resolution: Hashable, Sendable {
        /// Answer 206 with these bytes.
        case partial(ByteRange)
        /// Answer 200 with everything: the field asks for several ranges, which nobody here needs.
        case whole
        /// Answer 416.
        case unsatisfiable
    }

    /// At least one.
    package let specifications: [Specification]

    /// Reads a field value; nil when it is malformed or not in bytes, and must then be ignored.
    ///
    /// `bytes=9-2` is malformed as a whole, as section 14.1.1 says. At most 64 ranges.
    package init?(_ value: String) {
        let text = trimmingOptionalWhitespace(value)
        guard text.utf8.count > 6, text.prefix(6).lowercased() == "bytes=" else { return nil }
        var specifications: [Specification] = []
        for element in text.dropFirst(6).split(separator: ",", omittingEmptySubsequences: true) {
            guard specifications.count < 64, let one = Self.specification(trimmingOptionalWhitespace(element)) else {
                return nil
            }
            specifications.append(one)
        }
        guard !specifications.isEmpty else { return nil }
        self.specifications = specifications
    }

    private static func specification(_ text: String) -> Specification? {
        let bytes = Array(text.utf8)
        guard let dash = bytes.firstIndex(of: 0x2D) else { return nil }
        let left = bytes[..<dash]
        let right = bytes[(dash + 1)...]
        if left.isEmpty { return position(right).map { .suffix($0) } }
        guard let first = position(left) else { return nil }
        if right.isEmpty { return .from(first) }
        guard let last = position(right), last >= first else { return nil }
        return .interval(first: first, last: last)
    }

    /// A number of any size: what is beyond every object is one number like another.
    private static func position(_ digits: ArraySlice<UInt8>) -> Int64? {
        if let number = decimalNumber(digits) { return number }
        return digits.count > 18 && digits.allSatisfy { (0x30...0x39).contains($0) } ? farthest : nil
    }

    /// The largest number of 18 digits, which is above the size of any object and leaves room for arithmetic.
    private static let farthest: Int64 = 999_999_999_999_999_999

    /// What the field means for a representation of `size` bytes.
    package func resolve(size: Int64) -> Resolution {
        guard specifications.count == 1 else { return .whole }
        switch specifications[0] {
        case .interval(let first, let last):
            guard first < size else { return .unsatisfiable }
            return .partial(ByteRange(first, min(last, size - 1) + 1))
        case .from(let first):
            return first < size ? .partial(ByteRange(first, size)) : .unsatisfiable
        case .suffix(let count):
            guard count > 0, size > 0 else { return .unsatisfiable }
            return .partial(ByteRange(max(0, size - count), size))
        }
    }

    /// The field value that asks for `range`, which must not be empty.
    package static func value(for range: ByteRange) -> String {
        precondition(!range.isEmpty, "HTTP cannot ask for no bytes")
        return "bytes=\(range.lower)-\(range.upper - 1)"
    }
}
