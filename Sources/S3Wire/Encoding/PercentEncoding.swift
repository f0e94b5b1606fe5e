// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Digests

/// URI percent-encoding as SigV4 prescribes it: every byte outside `A-Za-z0-9-._~`, in upper-case hexadecimal.
package enum PercentEncoding {
    private static let digits = Array("0123456789ABCDEF".utf8)

    /// Encodes bytes; `keepSlash` leaves `/` as it is, for paths.
    package static func encode(_ bytes: some Sequence<UInt8>, keepSlash: Bool = false) -> String {
        var text: [UInt8] = []
        for byte in bytes {
            if isUnreserved(byte) || (keepSlash && byte == 0x2F) {
                text.append(byte)
            } else {
                text += [0x25, digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Encodes text; see the form over bytes.
    package static func encode(_ text: String, keepSlash: Bool = false) -> String {
        encode(text.utf8, keepSlash: keepSlash)
    }

    /// The bytes behind a text, nil when a `%` is not followed by two hexadecimal digits.
    ///
    /// `plusIsSpace` is the form encoding of queries and of some servers' listings.
    package static func decode(_ text: some StringProtocol, plusIsSpace: Bool = false) -> [UInt8]? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        bytes.reserveCapacity(rest.count)
        while let byte = rest.popFirst() {
            if byte == 0x25 {
                guard let first = rest.popFirst(), let second = rest.popFirst(),
                    let high = Hexadecimal.value(of: first), let low = Hexadecimal.value(of: second)
                else { return nil }
                bytes.append(high << 4 | low)
            } else {
                bytes.append(plusIsSpace && byte == 0x2B ? 0x20 : byte)
            }
        }
        return bytes
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
        default: false
        }
    }
}
