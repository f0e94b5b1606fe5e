// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration

/// A command's arguments, told apart: operands and flags with their values.
struct ParsedArguments: Sendable, Equatable {
    private(set) var operands: [String] = []
    private(set) var flags: [String: [String]] = [:]

    /// Reads `arguments` by the flags that `command` understands.
    ///
    /// Flags may stand anywhere before `--`; a value follows as `--name=VALUE`, `--name VALUE`, `-oVALUE` or `-o VALUE`.
    init(_ arguments: [String], for command: CommandDefinition) throws(CommandFailure) {
        var rest = arguments[...]
        while let token = rest.popFirst() {
            if token == "--" {
                operands += rest
                break
            } else if token.hasPrefix("--") {
                try readLong(token.dropFirst(2), &rest, command)
            } else if token.hasPrefix("-"), token != "-" {
                try readShort(token.dropFirst(1), &rest, command)
            } else {
                operands.append(token)
            }
        }
        if has("help") { return }
        // An unset variable of a script: as a path it would mean the working folder, and all that is in it.
        if operands.contains("") { throw .usage("\(command.name): an operand is empty") }
        guard command.operandCount.contains(operands.count) else {
            let problem =
                operands.count < command.operandCount.lowerBound
                ? "too few operands" : "unexpected operand \(operands[command.operandCount.upperBound])"
            throw .usage("\(command.name): \(problem): \(command.usage)")
        }
    }

    func has(_ name: String) -> Bool { flags[name] != nil }

    /// The last value given for a flag.
    func value(_ name: String) -> String? { flags[name]?.last }

    /// All values given for a flag, in order.
    func values(_ name: String) -> [String] { flags[name] ?? [] }

    /// A time in seconds, such as `30` or `2m`.
    func seconds(_ name: String) throws(CommandFailure) -> Double? {
        guard let text = value(name) else { return nil }
        guard let seconds = OptionValue.parseSeconds(text), seconds <= 86_400 * 3650 else {
            throw .usage("--\(name) \(text): not a time in seconds")
        }
        return seconds
    }

    private mutating func readLong(
        _ token: Substring,
        _ rest: inout ArraySlice<String>,
        _ command: CommandDefinition
    ) throws(CommandFailure) {
        let equals = token.firstIndex(of: "=")
        let name = String(equals.map { token[..<$0] } ?? token)
        let definition = try command.flag(name, spelling: "--\(name)")
        let inline = equals.map { String(token[token.index(after: $0)...]) }
        try store(definition, inline, &rest, command)
    }

    private mutating func readShort(
        _ token: Substring,
        _ rest: inout ArraySlice<String>,
        _ command: CommandDefinition
    ) throws(CommandFailure) {
        var letters = token
        while let letter = letters.popFirst() {
            let definition = try command.flag(String(letter), spelling: "-\(letter)")
            if definition.placeholder != nil {
                try store(definition, letters.isEmpty ? nil : String(letters), &rest, command)
                return
            }
            flags[definition.name, default: []].append("")
        }
    }

    private mutating func store(
        _ definition: FlagDefinition,
        _ inline: String?,
        _ rest: inout ArraySlice<String>,
        _ command: CommandDefinition
    ) throws(CommandFailure) {
        if definition.placeholder == nil {
            guard inline == nil else { throw .usage("\(command.name): \(definition.spelling) takes no value") }
            flags[definition.name, default: []].append("")
            return
        }
        guard let value = inline ?? rest.popFirst() else {
            throw .usage("\(command.name): \(definition.spelling) needs a value: \(definition.placeholder ?? "")")
        }
        flags[definition.name, default: []].append(value)
    }
}

extension CommandDefinition {
    fileprivate func flag(_ name: String, spelling: String) throws(CommandFailure) -> FlagDefinition {
        if let found = flags.first(where: { $0.name == name }) { return found }
        if name == "help" || name == "h" { return FlagDefinition("help", nil, "") }
        let hint = suggestion(for: name, among: flags.map(\.name) + ["help"])
        throw .usage("\(self.name): unknown option \(spelling)\(hint); see moorage \(self.name) --help")
    }
}
