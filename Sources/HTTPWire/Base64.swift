// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Base64 with the usual alphabet (RFC 4648, section 4).
enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// The bytes as text, padded.
    static func encoded(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            var word: UInt32 = 0
            for byte in group { word = word << 8 | UInt32(byte) }
            word <<= UInt32(8 * (3 - group.count))
            for position in 0..<4 {
                let digit = alphabet[Int(word >> UInt32(18 - 6 * position) & 0x3F)]
                text.append(position <= group.count ? digit : UInt8(ascii: "="))
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Reads text; missing padding is accepted, any other character outside the alphabet gives nil.
    static func decoded(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var word: UInt32 = 0
        var digits = 0
        var padding = 0
        for character in text {
            if character == UInt8(ascii: "=") {
                padding += 1
                continue
            }
            guard padding == 0, let value = digit(character) else { return nil }
            word = word << 6 | value
            digits += 1
            guard digits % 4 == 0 else { continue }
            bytes += [UInt8(word >> 16 & 0xFF), UInt8(word >> 8 & 0xFF), UInt8(word & 0xFF)]
            word = 0
        }
        return finished(bytes, word: word, rest: digits % 4, padding: padding)
    }

    private static func finished(_ bytes: [UInt8], word: UInt32, rest: Int, padding: Int) -> [UInt8]? {
        switch rest {
        case 0: padding == 0 ? bytes : nil
        case 2: padding == 0 || padding == 2 ? bytes + [UInt8(word >> 4 & 0xFF)] : nil
        case 3: padding <= 1 ? bytes + [UInt8(word >> 10 & 0xFF), UInt8(word >> 2 & 0xFF)] : nil
        default: nil
        }
    }

    private static func digit(_ character: UInt8) -> UInt32? {
        switch character {
        case 0x41...0x5A: UInt32(character - 0x41)
        case 0x61...0x7A: UInt32(character - 0x61 + 26)
        case 0x30...0x39: UInt32(character - 0x30 + 52)
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
