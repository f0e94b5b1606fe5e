// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration

/// `moorage policy`: the rules that this version obeys.
enum PolicyCommand {
    static let definition = CommandDefinition(
        name: "policy",
        operands: "[show]",
        operandCount: 0...100,
        flags: [],
        summary: "show the rules for uploads that hold now"
    ) { arguments throws(CommandFailure) in
        guard arguments.operands.first ?? "show" == "show" else {
            throw .usage("policy: \(arguments.operands[0]): only show exists; set keys in the configuration file")
        }
        guard arguments.operands.count < 2 else {
            throw .usage("policy: unexpected operand \(arguments.operands[1]): usage: moorage policy [show]")
        }
        let instance = try Instance.current()
        Console.line("for all volumes ([policy] of \(instance.directories.configuration)):")
        show(instance.configuration.policy, [.policy, .flusher])
        for volume in instance.configuration.volumes {
            Console.line("volume \(volume.name) (\(volume.remote)):")
            show(instance.configuration.policy.overridden(by: volume.values), [.policy])
        }
        return 0
    }

    private static func show(_ values: OptionValues, _ scopes: Set<OptionScope>) {
        let rows = OptionName.allCases.map(\.definition).filter { scopes.contains($0.scope) }.map { definition in
            ["  \(definition.name.rawValue)", values.effective(definition.name)?.text(definition.kind) ?? "automatic"]
        }
        for line in columns(rows) { Console.line(line) }
    }
}

extension OptionValue {
    /// The value as the configuration file has it.
    func text(_ kind: OptionKind) -> String {
        switch self {
        case .flag(let value): value ? "true" : "false"
        case .text(let text): text
        case .seconds(let seconds): secondText(seconds)
        case .number(let number):
            switch kind {
            case .bytes: byteText(number)
            case .octal: "0" + String(number, radix: 8)
            default: String(number)
            }
        }
    }
}
