// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Control

/// `moorage uploads`: lists what is pending and acts on it.
enum UploadsCommand {
    static let definition = CommandDefinition(
        name: "uploads",
        operands: "[list|pause|resume|now|cancel|retry|why|resolve] [PATH|ID ...]",
        operandCount: 0...100_000,
        flags: [
            FlagDefinition("json", nil, "print one JSON document"),
            FlagDefinition("all", nil, "every upload (pause, resume, now, cancel, retry, why), or conflict (resolve)"),
            FlagDefinition("tree", nil, "the progress of volumes, folders, files and parts as a tree (list)"),
            FlagDefinition("keep", "WHICH", "mine, theirs or both (resolve)"),
        ],
        summary: "list what is not remote yet, and pause, hurry or cancel it",
        details:
            """
            list            what is pending, its progress, and why it waits; what met a conflict; with --tree
                            [PATH ...] how far volumes, folders, files and parts are
            pause, resume   hold uploads; the parts sent so far are kept. A folder or volume is held with all that comes
                            later, until it is resumed itself; what is paused inside it stays so
            now             start without regard to quiet period, backoff, and what moorage policy show holds against it
            retry           like now, also for what needs attention
            cancel          give up the local change: the remote's content shows again
            why             why an upload waits, and until when
            resolve         settle a conflict: PATH is the file, or the copy of ours beside it
              --keep mine     our copy takes the file's place, if the remote's version is still the one that was met
              --keep theirs   the copy is deleted
              --keep both     both stay as they are
            """
    ) { arguments throws(CommandFailure) in
        let verb = arguments.operands.first ?? "list"
        let words = Array(arguments.operands.dropFirst())
        if arguments.has("tree") {
            return try tree(verb == "list" ? words : arguments.operands, json: arguments.has("json"))
        }
        switch verb {
        case "resolve": return try ConflictResolution.run(arguments, words)
        case _ where arguments.has("keep"): throw .usage("uploads \(verb): --keep goes with resolve")
        case "list": return try list(words, json: arguments.has("json"))
        case "why": return try why(words, all: arguments.has("all"), json: arguments.has("json"))
        default:
            guard let verb = UploadVerb(rawValue: verb) else {
                throw .usage(
                    "uploads: unknown verb \(verb): use list, pause, resume, now, cancel, retry, why or resolve"
                )
            }
            return try change(verb, words, all: arguments.has("all"), json: arguments.has("json"))
        }
    }

    private static func list(_ words: [String], json: Bool) throws(CommandFailure) -> Int32 {
        let instance = try Instance.current()
        let selections = try selections(words, instance)
        let uploads = try fetch(instance, selections)
        let conflicts = try fetchConflicts(instance, selections)
        try show(uploads, conflicts, json: json) { UploadText.table($0) + UploadText.conflicts(conflicts) }
        return 0
    }

    private static func tree(_ words: [String], json: Bool) throws(CommandFailure) -> Int32 {
        let instance = try Instance.current()
        var trees: [TreeReport] = []
        for selection in try selections(words, instance) {
            guard selection.ids.isEmpty else { throw .usage("uploads --tree: name paths or remotes, not ids") }
            guard case .trees(let found) = try instance.ask(.trees(selection: selection)) else {
                throw .unexpectedReply
            }
            trees += found
        }
        guard json else {
            for line in TreeText.lines(trees) { Console.line(line) }
            return 0
        }
        Console.bytes(try document(TreesReport(trees: trees)))
        return 0
    }

    private static func why(_ words: [String], all: Bool, json: Bool) throws(CommandFailure) -> Int32 {
        let instance = try Instance.current()
        try requireWords(words, all, "why")
        let uploads = WaitingHint.adding(to: try fetch(instance, try selections(words, instance)))
        if uploads.isEmpty, !json { Console.line("nothing is pending there") }
        try show(uploads, json: json) { $0.flatMap(UploadText.explanation) }
        return 0
    }

    private static func change(
        _ verb: UploadVerb,
        _ words: [String],
        all: Bool,
        json: Bool
    ) throws(CommandFailure) -> Int32 {
        try requireWords(words, all, verb.rawValue)
        let instance = try Instance.current()
        let selections = try selections(words, instance)
        let client = try instance.connect()
        let notice = OverrideNotice()
        var uploads: [UploadReport] = []
        var count = 0
        var refused: [String] = []
        var pauses: [PauseReport] = []
        for selection in selections {
            let reply = try client.ask(.change(verb: verb, selection: selection))
            guard case .changed(let changed, let problems, let rules, let number, let overridden) = reply else {
                throw .unexpectedReply
            }
            pauses += rules ?? []
            count += number ?? changed.count
            notice.print(overridden ?? [])
            add(changed, to: &uploads)
            refused += problems
        }
        if json {
            Console.bytes(try document(UploadsReport(uploads: uploads, count: count)))
        } else {
            Console.line("\(verb.rawValue): \(counted(count, "upload"))")
            let effect = verb == .pause ? ", and all that comes below it" : " again"
            for rule in pauses {
                Console.line("\(verb.rawValue): \(rule.path.isEmpty ? "the volume" : rule.path)\(effect)")
            }
        }
        for line in refused { Console.note(line) }
        if uploads.isEmpty, refused.isEmpty, pauses.isEmpty, !words.isEmpty {
            throw CommandFailure("uploads \(verb.rawValue): nothing is pending there; see moorage uploads")
        }
        return refused.isEmpty ? 0 : 1
    }

    private static func requireWords(_ words: [String], _ all: Bool, _ verb: String) throws(CommandFailure) {
        if words.isEmpty, !all { throw .usage("uploads \(verb): name a PATH or an ID, or use --all") }
        if !words.isEmpty, all { throw .usage("uploads \(verb): --all or names, not both") }
    }

    private static func fetch(
        _ instance: Instance,
        _ selections: [UploadSelection]
    ) throws(CommandFailure) -> [UploadReport] {
        var result: [UploadReport] = []
        var known = Set<String>()
        for selection in selections {
            var page: UploadPage? = UploadPage()
            while let asked = page {
                guard
                    case .uploads(let uploads, let next) = try instance.ask(.uploads(selection: selection, page: asked))
                else { throw .unexpectedReply }
                // One may be named twice, by its path and by its id, or move while it is looked for.
                result += uploads.filter { known.insert($0.id).inserted }
                page = next.map { UploadPage(after: $0) }
            }
        }
        return result
    }

    private static func fetchConflicts(
        _ instance: Instance,
        _ selections: [UploadSelection]
    ) throws(CommandFailure) -> [ConflictReport] {
        var result: [ConflictReport] = []
        for selection in selections where selection.ids.isEmpty {
            // A flusher of an earlier version that still runs does not know what is asked.
            guard case .conflicts(let conflicts)? = try? instance.ask(.conflicts(selection: selection)) else {
                continue
            }
            result += conflicts
        }
        return result
    }

    /// One upload may be named twice, by its path and by its id.
    private static func add(_ uploads: [UploadReport], to result: inout [UploadReport]) {
        let known = Set(result.map(\.id))
        result += uploads.filter { !known.contains($0.id) }
    }

    private static func selections(
        _ words: [String],
        _ instance: Instance
    ) throws(CommandFailure) -> [UploadSelection] {
        try SelectionResolver(instance).uploads(named: words)
    }

    private static func show(
        _ uploads: [UploadReport],
        _ conflicts: [ConflictReport]? = nil,
        json: Bool,
        _ lines: ([UploadReport]) -> [String]
    ) throws(CommandFailure) {
        guard json else {
            for line in lines(uploads) { Console.line(line) }
            return
        }
        Console.bytes(try document(UploadsReport(uploads: uploads, conflicts: conflicts)))
    }
}

extension ControlClient {
    /// Asks and turns an error into the command's failure.
    func ask(_ request: ControlRequest, timeout: Double = 60) throws(CommandFailure) -> ControlReply {
        do throws(ControlError) {
            return try call(request, timeout: timeout)
        } catch {
            throw CommandFailure(flusher: error)
        }
    }
}

extension CommandFailure {
    static var unexpectedReply: CommandFailure { CommandFailure("flusher: unexpected reply; restart it") }
}

/// A JSON document with a newline at its end.
func document(_ value: some Encodable) throws(CommandFailure) -> [UInt8] {
    do throws(ControlError) {
        return try JSON.encode(value, isPretty: true) + [0x0A]
    } catch {
        throw CommandFailure("output: \(error.description)")
    }
}
