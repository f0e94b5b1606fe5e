// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CShims
internal import Configuration
internal import Glibc

/// The command line: finds the command, runs it, prints its error.
package enum CommandLineTool {
    /// The version that `--version` prints.
    package static let version = "0.1.0"

    /// The file mode mask we were started with; ours is 077 from the first use of this on.
    static let inheritedMask = umask(0o077)

    /// Runs the program with its arguments, the program's own name first, and returns the exit status.
    package static func main(_ arguments: [String]) -> Int32 {
        _ = inheritedMask
        signal(SIGPIPE, SIG_IGN)
        protectMemory()
        let program = arguments.first.map { String($0.split(separator: "/").last ?? "") } ?? ""
        do throws(CommandFailure) {
            if program == "mount.moorage" || program == "mount.fuse.moorage" {
                return try MountHelper.run(Array(arguments.dropFirst()))
            }
            return try run(Array(arguments.dropFirst()))
        } catch {
            Console.note(error.message)
            return error.status
        }
    }

    /// Every command, in the order of help.
    static let commands: [CommandDefinition] = [
        MountCommand.definition, UnmountCommand.definition, StatusCommand.definition, UploadsCommand.definition,
        FlushCommand.definition, ServeCommand.definition, PolicyCommand.definition, CacheCommand.definition,
        DoctorCommand.definition, FlusherCommand.definition, DocumentationCommand.definition,
    ]

    private static func run(_ arguments: [String]) throws(CommandFailure) -> Int32 {
        guard let first = arguments.first else {
            throw .usage("no command; see moorage --help")
        }
        switch first {
        case "--help", "-h", "help":
            Console.text(overview())
            return 0
        case "--version", "-V", "version":
            Console.line("moorage \(version)")
            return 0
        default: break
        }
        guard let command = commands.first(where: { $0.name == first }) else {
            let hint = suggestion(for: first, among: commands.filter { !$0.isInternal }.map(\.name))
            throw .usage("\(first): unknown command\(hint); see moorage --help")
        }
        let rest = Array(arguments.dropFirst())
        if rest.first == "--version" { return try run(["--version"]) }
        let parsed = try ParsedArguments(rest, for: command)
        if parsed.has("help") {
            Console.text(command.help())
            return 0
        }
        return try command.run(parsed)
    }

    /// The text of `moorage --help`.
    static func overview() -> String {
        let rows = commands.filter { !$0.isInternal }.map { ["  \($0.name)", $0.summary] }
        return """
            usage: moorage COMMAND ...

            Mounts a bucket as a folder; what is written uploads by itself, and goes on after anything.

            commands:
            \(columns(rows).joined(separator: "\n"))

            moorage COMMAND --help tells more. Settings: moorage mount --help, Docs/Configuration.md.

            """
    }

    /// No core dump, and no other process of this user, may read credentials out of our memory.
    private static func protectMemory() {
        _ = moorage_disable_core_dumps()
    }
}
