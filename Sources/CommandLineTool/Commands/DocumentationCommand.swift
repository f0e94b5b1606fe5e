// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration

/// `moorage documentation`: the generated parts of the documentation, for Scripts/check.
enum DocumentationCommand {
    static let definition = CommandDefinition(
        name: "documentation",
        operands: "configuration|manual",
        operandCount: 1...1,
        flags: [],
        summary: "print a generated part of the documentation",
        isInternal: true
    ) { arguments throws(CommandFailure) in
        switch arguments.operands[0] {
        case "configuration": Console.text(OptionDocumentation.markdown())
        case "manual": Console.text(ManualPage.text())
        default: throw .usage("documentation: configuration or manual")
        }
        return 0
    }
}
