// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A line of pieces with a look each: one text for terminals with colours, without, and for files.
struct StyledText: Equatable {
    /// Select Graphic Rendition, ECMA-48 section 8.3.117.
    enum Style: String {
        case plain = ""
        case bold = "1"
        case dim = "2"
        case green = "32"
        case yellow = "33"
        case red = "31"
    }

    struct Piece: Equatable {
        var text: String
        var style: Style
    }

    private(set) var pieces: [Piece] = []

    init(_ text: String = "", _ style: Style = .plain) {
        add(text, style)
    }

    mutating func add(_ text: String, _ style: Style = .plain) {
        guard !text.isEmpty else { return }
        // Names come from elsewhere: they must not drive the terminal.
        pieces.append(Piece(text: Console.oneLine(text), style: style))
    }

    func adding(_ text: String, _ style: Style = .plain) -> StyledText {
        var copy = self
        copy.add(text, style)
        return copy
    }

    var plain: String { pieces.map(\.text).joined() }

    /// The text for a terminal of `width` columns: cut where it is longer.
    func rendered(width: Int, hasColours: Bool) -> String {
        var left = width
        var result = ""
        for piece in pieces where left > 0 {
            let text = DisplayWidth.cut(piece.text, to: left)
            left -= DisplayWidth.of(text)
            result += hasColours && piece.style != .plain ? "\u{1B}[\(piece.style.rawValue)m\(text)\u{1B}[0m" : text
        }
        return result
    }
}
