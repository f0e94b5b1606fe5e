// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import Configuration
internal import Glibc
internal import Platform

/// The command line: finds the command, runs it, prints its error.
package enum CommandLineTool {
    /// The version that `--version` prints.
    package static let version = "0.1.0"

    /// The version that is told to flushers; tests let a program be another than it is.
    static let comparedVersion = ProcessEnvironment.value("MOORAGE_PROGRAM_VERSION") ?? version

    /// The file mode mask we were started with; ours is 077 from the first use of this on.
    static let inheritedMask = umask(0o077)

    /// Runs the program with its arguments, the program's own name first, and returns the exit status.
    package static func main(_ arguments: [String]) -> Int32 {
        _ = inheritedMask
        signal(SIGPIPE, SIG_IGN)
        InheritedDescriptors.settle()
        Log.adaptToJournal(stream: ProcessEnvironment.value("JOURNAL_STREAM"))
        protectMemory()
        let program = arguments.first.map { String($0.split(separator: "/").last ?? "") } ?? ""
        do throws(CommandFailure) {
            try checkEncoding()
            if program == "mount.moorage" || program == "mount.fuse.moorage" {
                return try MountHelper.run(Array(arguments.dropFirst()))
            }
            return checked(try run(Array(arguments.dropFirst())))
        } catch {
            Console.note(error.message)
            return error.status
        }
    }

    /// The status of a command that could not print what it was asked for is no success.
    private static func checked(_ status: Int32) -> Int32 {
        guard status == 0, let code = Console.outputError, code != EPIPE else { return status }
        Console.note("standard output: \(SystemError.make(code, "write").reason)")
        return 1
    }

    /// Arguments are UTF-8, as object keys are: what was mended would be the name of something else.
    private static func checkEncoding() throws(CommandFailure) {
        for word in ProgramArguments.bytes().dropFirst() where String(validating: word, as: UTF8.self) == nil {
            let text = String(decoding: word, as: UTF8.self)
            throw .usage("\(text): not UTF-8; give arguments and paths in UTF-8")
        }
    }

    /// Every command, in the order of help.
    static let commands: [CommandDefinition] = [
        MountCommand.definition, UnmountCommand.definition, StatusCommand.definition, UploadsCommand.definition,
        EventsCommand.definition, FlushCommand.definition, ServeCommand.definition, ListCommand.definition,
        PolicyCommand.definition,
        CacheCommand.definition, PinCommand.pin, PinCommand.unpin, PinCommand.pins,
        DoctorCommand.definition, FlusherCommand.definition, ServiceCommand.definition, DocumentationCommand.definition,
    ]

    private static func run(_ arguments: [String]) throws(CommandFailure) -> Int32 {
        guard let first = arguments.first else {
            throw .usage("no command; see moorage --help")
        }
        switch first {
        case "--help", "-h", "help":
            let topic = first == "help" ? commands.first { $0.name == arguments.dropFirst().first } : nil
            Console.text(topic?.help() ?? overview())
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
