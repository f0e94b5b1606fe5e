// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Reads a non-negative decimal number as HTTP's `1*DIGIT`: digits only, at most 18 of them.
///
/// `Int64("+5")` and other forms Swift accepts are refused: two readers that
/// disagree about a length are how requests get smuggled.
@inlinable
package func decimalNumber(_ text: some Collection<UInt8>) -> Int64? {
    guard !text.isEmpty, text.count <= 18 else { return nil }
    var value: Int64 = 0
    for digit in text {
        guard digit >= 0x30, digit <= 0x39 else { return nil }
        value = value * 10 + Int64(digit - 0x30)
    }
    return value
}

/// Reads a non-negative decimal number; see the form over bytes.
package func decimalNumber(_ text: some StringProtocol) -> Int64? {
    decimalNumber(Array(text.utf8))
}

/// The text without the spaces and tabs around it (RFC 9110's optional whitespace).
package func trimmingOptionalWhitespace(_ text: some StringProtocol) -> String {
    var bytes = Array(text.utf8)[...]
    while let first = bytes.first, first == 0x20 || first == 0x09 { bytes.removeFirst() }
    while let last = bytes.last, last == 0x20 || last == 0x09 { bytes.removeLast() }
    return String(decoding: bytes, as: UTF8.self)
}
