// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A request that is refused before any handler sees it; the connection is closed behind the answer.
struct HTTPParseError: Error, Hashable, Sendable {
    /// The status to answer with.
    let status: Int
    /// What is wrong, for the answer's text.
    let reason: String

    init(_ status: Int, _ reason: String) {
        self.status = status
        self.reason = reason
    }

    /// A malformed request: 400.
    init(_ reason: String) {
        self.init(400, reason)
    }
}

/// The classes of octets that RFC 9110, section 5.6, and RFC 9112 name.
enum HTTPOctet {
    static let carriageReturn = UInt8(ascii: "\r")
    static let lineFeed = UInt8(ascii: "\n")
    static let space = UInt8(ascii: " ")
    static let tab = UInt8(ascii: "\t")
    static let colon = UInt8(ascii: ":")

    /// Whether the octet may stand in a token, such as a method or a field name.
    static func isTokenCharacter(_ octet: UInt8) -> Bool {
        switch octet {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E, 0x5F, 0x60, 0x7C, 0x7E: true
        default: false
        }
    }

    /// Whether the octet may stand in a field value: visible, space, tab, or above ASCII.
    static func isFieldCharacter(_ octet: UInt8) -> Bool {
        octet == tab || (octet >= 0x20 && octet != 0x7F)
    }

    /// The value of a hexadecimal digit.
    static func hexadecimal(_ octet: UInt8) -> UInt8? {
        switch octet {
        case 0x30...0x39: octet - 0x30
        case 0x41...0x46: octet - 0x41 + 10
        case 0x61...0x66: octet - 0x61 + 10
        default: nil
        }
    }
}
