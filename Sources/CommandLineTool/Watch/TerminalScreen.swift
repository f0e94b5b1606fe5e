// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration
internal import Glibc

/// A terminal's second screen, on which lines are drawn over those before; the first one is given back as it was.
///
/// Sequences of ECMA-48 and xterm (DECSET 1049, 25) that all terminals of today know.
final class TerminalScreen {
    private var isEntered = false
    private let hasColours: Bool

    private init(hasColours: Bool) {
        self.hasColours = hasColours
    }

    /// The screen of standard output; nil when that is no terminal, or one that knows no sequences.
    static func ofStandardOutput() -> TerminalScreen? {
        guard Console.isTerminal, ProcessEnvironment.value("TERM") ?? "dumb" != "dumb" else { return nil }
        return TerminalScreen(hasColours: ProcessEnvironment.value("NO_COLOR") == nil)
    }

    var size: (width: Int, height: Int) { Console.size }

    /// Draws lines from the top; what was below them is cleared.
    func draw(_ lines: [StyledText]) {
        var text = isEntered ? "" : "\u{1B}[?1049h\u{1B}[?25l\u{1B}[2J"
        isEntered = true
        let (width, height) = size
        text += "\u{1B}[H"
        text += lines.prefix(height).map { line in
            // Cleared before it is written: after the last column it would take that with it.
            "\u{1B}[2K" + line.rendered(width: width, hasColours: hasColours)
        }.joined(separator: "\r\n")
        if lines.count < height { text += "\r\n\u{1B}[J" }
        Console.text(text)
    }

    /// Gives the terminal back, with these lines on it.
    func leave(showing lines: [StyledText]) {
        guard isEntered else { return }
        isEntered = false
        let width = size.width
        let last = lines.map { $0.rendered(width: width, hasColours: hasColours) }.joined(separator: "\n")
        Console.text("\u{1B}[?25h\u{1B}[?1049l\(last)\n")
    }

    /// Gives the terminal back and stops this process; returns when it goes on.
    func suspend(showing lines: [StyledText]) {
        leave(showing: lines)
        kill(getpid(), SIGSTOP)
    }
}
