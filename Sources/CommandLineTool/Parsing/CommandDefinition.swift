// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A flag that a command understands.
struct FlagDefinition: Sendable {
    /// Without dashes; one letter for a short flag such as `-o`.
    let name: String
    /// The name of its value in help; nil for a flag without one.
    let placeholder: String?
    let summary: String

    init(_ name: String, _ placeholder: String? = nil, _ summary: String) {
        self.name = name
        self.placeholder = placeholder
        self.summary = summary
    }

    /// As the user writes it.
    var spelling: String { name.utf8.count == 1 ? "-\(name)" : "--\(name)" }
}

/// A command: what it takes, what help says of it, and what it does.
struct CommandDefinition: Sendable {
    let name: String
    /// The operands as the usage line shows them.
    let operands: String
    let operandCount: ClosedRange<Int>
    let flags: [FlagDefinition]
    let summary: String
    /// More for `--help`, below the flags.
    var details = ""
    /// Left out of the list of commands: for our own child processes.
    var isInternal = false
    let run: @Sendable (ParsedArguments) throws(CommandFailure) -> Int32

    /// `usage: moorage NAME OPERANDS`.
    var usage: String { "usage: moorage \(name)" + (operands.isEmpty ? "" : " \(operands)") }

    /// The text of `--help`.
    func help() -> String {
        var lines = [usage, "", summary]
        let shown = flags.filter { !$0.summary.isEmpty }
        if !shown.isEmpty { lines += ["", "flags:"] }
        for flag in shown {
            let text = flag.spelling + (flag.placeholder.map { " \($0)" } ?? "")
            lines.append("  \(text)\(String(repeating: " ", count: max(1, 22 - text.count)))\(flag.summary)")
        }
        if !details.isEmpty { lines += ["", details] }
        return lines.joined(separator: "\n") + "\n"
    }
}
