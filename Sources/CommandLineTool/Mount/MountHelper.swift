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
        summary: "mount helper"
    ) { arguments throws(CommandFailure) in
        if arguments.has("f") { return 0 }
        return try MountCommand.definition.run(arguments)
    }

    /// Mounts; every failure has mount(8)'s status.
    static func run(_ arguments: [String]) throws(CommandFailure) -> Int32 {
        do throws(CommandFailure) {
            return try definition.run(try ParsedArguments(arguments, for: definition))
        } catch {
            throw CommandFailure(error.message, status: error.status == 2 ? 1 : 32)
        }
    }
}
