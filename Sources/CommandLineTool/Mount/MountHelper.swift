// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// mount(8)'s way to call us: `mount.moorage REMOTE MOUNTPOINT [-sfnv] [-N NS] [-t TYPE] [-o OPTIONS]`.
enum MountHelper {
    static let definition = CommandDefinition(
        name: "mount",
        operands: "REMOTE MOUNTPOINT",
        operandCount: 2...2,
        flags: [
            FlagDefinition("o", "OPTIONS", "settings"),
            FlagDefinition("t", "TYPE", "passed by mount(8)"),
            FlagDefinition("N", "NAMESPACE", "passed by mount(8)"),
            FlagDefinition("s", nil, "passed by mount(8)"),
            FlagDefinition("f", nil, "only check the words, mount nothing"),
            FlagDefinition("n", nil, "passed by mount(8)"),
            FlagDefinition("v", nil, "passed by mount(8)"),
        ],
        summary: "what mount(8) calls for the type moorage; see moorage mount --help"
    ) { arguments throws(CommandFailure) in
        if arguments.has("f") { return 0 }
        return try MountCommand.definition.run(arguments)
    }

    /// Mounts; every failure has mount(8)'s status.
    static func run(_ arguments: [String]) throws(CommandFailure) -> Int32 {
        if arguments.first == "--version" || arguments.first == "-V" {
            Console.line("moorage \(CommandLineTool.version)")
            return 0
        }
        do throws(CommandFailure) {
            let parsed = try ParsedArguments(arguments, for: definition)
            if parsed.has("help") {
                Console.text(definition.help())
                return 0
            }
            return try definition.run(parsed)
        } catch {
            throw CommandFailure(error.message, status: error.status == 2 ? 1 : 32)
        }
    }
}
