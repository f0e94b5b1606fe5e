// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Reads the string members of one JSON object (RFC 8259), which is what metadata services answer.
///
/// Other members are skipped when they are plain values; nested ones are refused.
enum FlatJSON {
    /// The members with string values, nil when the text is not such an object.
    static func strings(_ text: [UInt8]) -> [String: String]? {
        var reader = Reader(rest: text[...])
        return reader.object()
    }

    private struct Reader {
        var rest: ArraySlice<UInt8>

        mutating func object() -> [String: String]? {
            guard take(UInt8(ascii: "{")) else { return nil }
            var members: [String: String] = [:]
            if take(UInt8(ascii: "}")) { return isAtEnd ? members : nil }
            repeat {
                guard let name = string(), take(UInt8(ascii: ":")) else { return nil }
                skipSpace()
                if rest.first == UInt8(ascii: "\"") {
                    guard let value = string() else { return nil }
                    members[name] = value
                } else if !skipPlainValue() {
                    return nil
                }
            } while take(UInt8(ascii: ","))
            return take(UInt8(ascii: "}")) && isAtEnd ? members : nil
        }

        private var isAtEnd: Bool { rest.allSatisfy { Self.isSpace($0) } }

        private static func isSpace(_ byte: UInt8) -> Bool {
            byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D
        }

        private mutating func skipSpace() {
            rest = rest.drop { Self.isSpace($0) }
        }

        private mutating func take(_ byte: UInt8) -> Bool {
            skipSpace()
            guard rest.first == byte else { return false }
            rest = rest.dropFirst()
            return true
        }

        private mutating func string() -> String? {
            guard take(UInt8(ascii: "\"")) else { return nil }
            var bytes: [UInt8] = []
            while let byte = rest.popFirst() {
                switch byte {
                case UInt8(ascii: "\""): return String(validating: bytes, as: UTF8.self)
                case UInt8(ascii: "\\"):
                    guard let unescaped = escape() else { return nil }
                    bytes += unescaped
                case 0..<0x20: return nil
                default: bytes.append(byte)
                }
            }
            return nil
        }

        /// What stands behind a backslash; surrogates do not occur in credentials and are refused.
        private mutating func escape() -> [UInt8]? {
            guard let kind = rest.popFirst() else { return nil }
            switch kind {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return [kind]
            case UInt8(ascii: "n"): return [0x0A]
            case UInt8(ascii: "t"): return [0x09]
            case UInt8(ascii: "r"): return [0x0D]
            case UInt8(ascii: "b"): return [0x08]
            case UInt8(ascii: "f"): return [0x0C]
            case UInt8(ascii: "u"):
                let digits = String(decoding: rest.prefix(4), as: UTF8.self)
                guard digits.utf8.count == 4, let value = UInt32(digits, radix: 16), let scalar = Unicode.Scalar(value)
                else { return nil }
                rest = rest.dropFirst(4)
                return Array(String(Character(scalar)).utf8)
            default: return nil
            }
        }

        /// Skips a number, `true`, `false` or `null`.
        private mutating func skipPlainValue() -> Bool {
            let value = rest.prefix { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2B, 0x2D, 0x2E: true
                default: false
                }
            }
            rest = rest.dropFirst(value.count)
            return !value.isEmpty
        }
    }
}
