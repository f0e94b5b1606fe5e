// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

extension HTTPFields {
    /// The body's length as the fields give it: nil when absent, malformed or given twice with different values.
    package var contentLength: Int64? {
        let lengths = Set(values("content-length").map { decimalNumber(trimmingOptionalWhitespace($0)) })
        return lengths.count == 1 ? lengths.first.flatMap { $0 } : nil
    }

    /// The representation's entity tag, nil when absent or malformed.
    package var entityTag: EntityTag? { self["etag"].flatMap(EntityTag.init(fieldValue:)) }

    /// The modification time, nil when absent or malformed.
    package var lastModified: Timestamp? { self["last-modified"].flatMap { HTTPDate.parse($0) } }

    /// The sender's clock at the time of the message, nil when absent or malformed.
    package var date: Timestamp? { self["date"].flatMap { HTTPDate.parse($0) } }

    /// How many seconds `Retry-After` asks to wait, from a number or a date (RFC 9110, section 10.2.3).
    ///
    /// `now` is our clock, for a response without a Date. Never negative, at most one day.
    package func retryAfter(now: Timestamp) -> Double? {
        guard let value = self["retry-after"].map({ trimmingOptionalWhitespace($0) }) else { return nil }
        if let seconds = decimalNumber(value) { return Double(min(seconds, 86_400)) }
        guard let when = HTTPDate.parse(value) else { return nil }
        return Double(min(max(0, when.seconds - (date ?? now).seconds), 86_400))
    }

    /// Content codings of the body, lower case, without `identity` and without `aws-chunked`.
    ///
    /// S3-like servers store `aws-chunked`, which is a transfer form and never a
    /// coding of what they send (seen at rclone, Ceph and SeaweedFS).
    package var contentCodings: [String] {
        values("content-encoding")
            .flatMap { $0.split(separator: ",") }
            .map { trimmingOptionalWhitespace($0).lowercased() }
            .filter { !$0.isEmpty && $0 != "identity" && $0 != "aws-chunked" }
    }

    /// Whether a name is a token and the value free of CR, LF and NUL, so that the line cannot forge others.
    package static func isSafe(name: String, value: String) -> Bool {
        !name.isEmpty && name.utf8.allSatisfy(isTokenCharacter)
            && value.utf8.allSatisfy { $0 != 0x0D && $0 != 0x0A && $0 != 0 }
    }

    /// Whether a byte may stand in a token: a method, a field name (RFC 9110, section 5.6.2).
    package static func isTokenCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E, 0x5F, 0x60, 0x7C, 0x7E: true
        default: false
        }
    }
}
