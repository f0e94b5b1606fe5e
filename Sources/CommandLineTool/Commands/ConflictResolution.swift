// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Control

/// `moorage uploads resolve`: what becomes of a file that was changed here and at the remote.
enum ConflictResolution {
    static func run(_ arguments: ParsedArguments, _ words: [String]) throws(CommandFailure) -> Int32 {
        let choice = try choice(arguments)
        if words.isEmpty, !arguments.has("all") { throw .usage("uploads resolve: name a PATH, or use --all") }
        if !words.isEmpty, arguments.has("all") { throw .usage("uploads resolve: --all or names, not both") }
        if let word = words.first(where: UploadIdentifier.isOne) {
            throw .usage("uploads resolve: \(word): name a PATH, conflicts have no ids")
        }
        let instance = try Instance.current()
        let selections = try SelectionResolver(instance).uploads(named: words)
        let client = try instance.connect()
        var report = ResolutionReport(resolved: [], refused: [])
        for selection in selections {
            let reply = try client.ask(.resolve(keep: choice, selection: selection))
            guard case .resolved(let conflicts, let refused) = reply else { throw .unexpectedReply }
            report.resolved += conflicts
            report.refused += refused
        }
        return try show(report, choice, isNamed: !words.isEmpty, json: arguments.has("json"))
    }

    private static func choice(_ arguments: ParsedArguments) throws(CommandFailure) -> ConflictReport.Choice {
        guard let word = arguments.value("keep") else {
            throw .usage("uploads resolve: say what to keep: --keep mine, theirs or both")
        }
        guard let choice = ConflictReport.Choice(rawValue: word) else {
            throw .usage("uploads resolve: --keep \(word): use mine, theirs or both")
        }
        return choice
    }

    private static func show(
        _ report: ResolutionReport,
        _ choice: ConflictReport.Choice,
        isNamed: Bool,
        json: Bool
    ) throws(CommandFailure) -> Int32 {
        if json {
            Console.bytes(try document(report))
        } else {
            for conflict in report.resolved { Console.line(line(conflict, choice)) }
        }
        for line in report.refused { Console.note(line) }
        if report.resolved.isEmpty, report.refused.isEmpty, isNamed {
            throw CommandFailure("uploads resolve: no such conflict; see moorage uploads")
        }
        return report.refused.isEmpty ? 0 : 1
    }

    private static func line(_ conflict: ConflictReport, _ choice: ConflictReport.Choice) -> String {
        let path = Console.oneLine(conflict.path)
        switch choice {
        case .mine: return "\(path): ours takes the place of the remote's"
        case .theirs: return "\(path): the remote's stays, our copy goes"
        case .both: return "\(path): both stay, ours as \(Console.oneLine(conflict.copy))"
        }
    }
}
