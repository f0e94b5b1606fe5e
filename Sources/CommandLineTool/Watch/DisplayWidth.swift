// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How many columns of a terminal text takes.
enum DisplayWidth {
    /// The columns of a text without control characters.
    static func of(_ text: String) -> Int { text.reduce(0) { $0 + of($1) } }

    /// The beginning of a text that fits into `width` columns, with `…` where something is left out.
    static func cut(_ text: String, to width: Int) -> String {
        guard of(text) > width else { return text }
        guard width > 0 else { return "" }
        var result = ""
        var used = 0
        for character in text {
            let more = of(character)
            guard used + more < width else { break }
            result.append(character)
            used += more
        }
        return result + "…"
    }

    /// The end of a text, which tells more of a path than its beginning.
    static func cutFront(_ text: String, to width: Int) -> String {
        guard of(text) > width else { return text }
        return String(cut(String(text.reversed()), to: width).reversed())
    }

    /// The text, filled up with spaces or cut to exactly `width` columns.
    static func fit(_ text: String, to width: Int) -> String {
        let short = cut(text, to: width)
        return short + String(repeating: " ", count: max(0, width - of(short)))
    }

    /// 0 for what is drawn onto the character before, 2 for wide characters (Unicode Standard Annex 11), else 1.
    private static func of(_ character: Character) -> Int {
        guard let scalar = character.unicodeScalars.first else { return 0 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format: return 0
        default: return wide.contains { $0.contains(scalar.value) } ? 2 : 1
        }
    }

    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF,
        0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F680...0x1F6FF, 0x1F900...0x1F9FF,
        0x20000...0x3FFFD,
    ]
}
