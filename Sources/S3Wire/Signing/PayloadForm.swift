// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import HTTPWire

/// What `x-amz-content-sha256` says about a request's body.
package enum PayloadForm: Hashable, Sendable {
    /// The body's SHA-256, as 64 hexadecimal digits.
    case digest(String)
    case unsigned
    /// `aws-chunked` framing; chunks may be signed, and trailers may follow.
    case streaming(isSigned: Bool, hasTrailer: Bool)

    /// Reads the header; nil when it is absent or unknown.
    package init?(_ fields: HTTPFields) {
        guard let value = fields["x-amz-content-sha256"] else { return nil }
        switch value {
        case CanonicalRequest.unsignedPayload: self = .unsigned
        case "STREAMING-AWS4-HMAC-SHA256-PAYLOAD": self = .streaming(isSigned: true, hasTrailer: false)
        case "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER": self = .streaming(isSigned: true, hasTrailer: true)
        case "STREAMING-UNSIGNED-PAYLOAD-TRAILER": self = .streaming(isSigned: false, hasTrailer: true)
        default:
            guard value.utf8.count == 64,
                value.utf8.allSatisfy({ ($0 >= 0x30 && $0 <= 0x39) || ($0 >= 0x61 && $0 <= 0x66) })
            else { return nil }
            self = .digest(value)
        }
    }
}
