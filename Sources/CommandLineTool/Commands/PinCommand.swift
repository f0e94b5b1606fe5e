// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Configuration
internal import Control
internal import Platform

/// `moorage pin|unpin|pins`: what is kept whole in the cache.
enum PinCommand {
    private static let json = FlagDefinition("json", nil, "print one JSON document")

    static let pin = CommandDefinition(
        name: "pin",
        operands: "PATH ...",
        operandCount: 1...1000,
        flags: [json],
        summary: "keep files or folders whole in the cache",
        details: """
            The mount fetches what is pinned in the background, with all that is and will be in a folder, and the
            cache never gives it up. Pins belong to the path, and last until unpin. See moorage pins, whose document
            --json prints.
            """
    ) { arguments throws(CommandFailure) in
        try change(arguments, "pin") { list, path, word throws(CommandFailure) in
            guard list.insert(path) else {
                throw CommandFailure("pin: \(word): a volume has no more than \(PinList.maximumCount) pins")
            }
        }
    }

    static let unpin = CommandDefinition(
        name: "unpin",
        operands: "PATH ...",
        operandCount: 1...1000,
        flags: [json],
        summary: "let the cache give up what was pinned"
    ) { arguments throws(CommandFailure) in
        try change(arguments, "unpin") { list, path, word throws(CommandFailure) in
            guard list.remove(path) else {
                let hint = list.covers(path) ? "a folder above it is: unpin that" : "see moorage pins"
                throw CommandFailure("unpin: \(word): not pinned itself; \(hint)")
            }
        }
    }

    static let pins = CommandDefinition(
        name: "pins",
        operands: "",
        operandCount: 0...0,
        flags: [json],
        summary: "list what is pinned, and how much of it is in the cache"
    ) { arguments throws(CommandFailure) in
        let instance = try Instance.current()
        let report = report(instance)
        if arguments.has("json") { Console.bytes(try document(report)) } else { show(report.pins) }
        return 0
    }

    /// Changes the pins of the volumes that the words are in, all words or, of each volume, none.
    private static func change(
        _ arguments: ParsedArguments,
        _ command: String,
        _ body: (inout PinList, ObjectKey, String) throws(CommandFailure) -> Void
    ) throws(CommandFailure) -> Int32 {
        let instance = try Instance.current()
        let resolver = SelectionResolver(instance)
        for word in arguments.operands {
            guard let found = try resolver.resolve(word), let id = found.volumes.first, found.volumes.count == 1,
                let volume = instance.volumes().first(where: { $0.id == id })
            else {
                throw CommandFailure("\(command): \(word): not in a volume that was mounted here; see moorage status")
            }
            let store = PinStore(path: instance.directories.places(of: volume).pins)
            var failure: CommandFailure?
            do throws(SystemError) {
                _ = try store.change { list in
                    do throws(CommandFailure) {
                        try body(&list, ObjectKey(found.paths.first ?? ""), word)
                        return true
                    } catch {
                        failure = error
                        return false
                    }
                }
            } catch {
                throw CommandFailure("\(command): \(word): \(error)")
            }
            if let failure { throw failure }
        }
        if arguments.has("json") { Console.bytes(try document(report(instance))) }
        return 0
    }

    private static func report(_ instance: Instance) -> PinReport {
        let rows = instance.volumes().flatMap { volume -> [PinReport.Pin] in
            do throws(SystemError) {
                return try Self.rows(volume, instance.directories)
            } catch {
                Console.note("\(volume.remote): what is pinned cannot be read: \(error)")
                return []
            }
        }
        return PinReport(pins: rows)
    }

    private static func rows(
        _ volume: VolumeDescription,
        _ directories: Directories
    ) throws(SystemError) -> [PinReport.Pin] {
        let store = PinStore(path: directories.places(of: volume).pins)
        let told = store.progress()
        let isMounted = volume.currentMountpoint(directories) != nil
        return try store.load().paths.map { path in
            let progress = told.first { $0.path == path }
            return PinReport.Pin(
                volume: volume.id,
                remote: volume.remote,
                path: path.string,
                files: progress?.files ?? 0,
                bytesPresent: progress?.bytesPresent ?? 0,
                bytesTotal: progress?.bytesTotal,
                problem: progress?.problem ?? (isMounted ? nil : "not mounted: nothing is fetched")
            )
        }
    }

    private static func show(_ rows: [PinReport.Pin]) {
        if rows.isEmpty { Console.line("nothing is pinned") }
        for row in rows {
            let total =
                row.bytesTotal.map { "\(humanBytes(row.bytesPresent)) of \(humanBytes($0))" } ?? "not looked at yet"
            let problem = row.problem.map { "; \($0)" } ?? ""
            Console.line(
                Console.oneLine("\(row.remote)  /\(row.path)  \(counted(row.files, "file")), \(total)\(problem)")
            )
        }
    }
}

/// The document of `pins --json`, and of `pin --json` and `unpin --json` after the change.
struct PinReport: Codable {
    struct Pin: Codable {
        var volume: String
        var remote: String
        /// In the volume, without a leading slash; empty for all of it.
        var path: String
        var files: Int
        var bytesPresent: Int64
        /// Null before the mount has looked at it.
        var bytesTotal: Int64?
        /// Why it is not all there, or null.
        var problem: String?

        private enum CodingKeys: String, CodingKey {
            case volume, remote, path, files, problem
            case bytesPresent = "bytes_present"
            case bytesTotal = "bytes_total"
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(volume, forKey: .volume)
            try container.encode(remote, forKey: .remote)
            try container.encode(path, forKey: .path)
            try container.encode(files, forKey: .files)
            try container.encode(bytesPresent, forKey: .bytesPresent)
            try container.encode(bytesTotal, forKey: .bytesTotal)
            try container.encode(problem, forKey: .problem)
        }
    }

    var pins: [Pin]
}
