// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import BlockCache
internal import Configuration
internal import Control

/// `moorage cache`: what the caches take, and giving it back.
enum CacheCommand {
    static let definition = CommandDefinition(
        name: "cache",
        operands: "[show|clear] [PATH|REMOTE] | verify [PATH|REMOTE ...] | refresh PATH...",
        operandCount: 0...1000,
        flags: [FlagDefinition("json", nil, "print one JSON document")],
        summary: "show, verify, clear or refresh what is cached of remote files",
        details: """
            verify compares every block kept of the named files, folders or volumes, else of all, with its checksum
            and drops the wrong ones, which are fetched again when they are read; it exits with 1 when there were any.
            clear removes every cached block that is not being read. Both can run at any time and never touch
            what is not remote yet.

            refresh has a mount ask its remote anew, whatever metadata_age and kernel_age say: for a file, or for a
            folder and all below it. What is not there yet is looked for in the folder above it.
            """
    ) { arguments throws(CommandFailure) in
        let verb = arguments.operands.first ?? "show"
        if verb == "refresh" {
            return try CacheRefresh.run(Array(arguments.operands.dropFirst()), asJSON: arguments.has("json"))
        }
        guard ["show", "verify", "clear"].contains(verb) else {
            throw .usage("cache: unknown verb \(verb): use show, verify, clear or refresh")
        }
        let instance = try Instance.current()
        let words = Array(arguments.operands.dropFirst())
        if verb == "verify" {
            return try CacheVerificationCommand.run(words, asJSON: arguments.has("json"), instance)
        }
        guard words.count <= 1 else { throw .usage("cache: \(verb) takes one PATH or REMOTE at most") }
        let volumes = try selected(words.first, instance)
        let rows = volumes.map { volume in
            let cache = CacheFolder.open(volume, instance.directories.places(of: volume))
            let cleared = verb == "clear" ? cache.clear() : 0
            cache.measureAll()
            return CacheReport.Volume(
                id: volume.id,
                remote: volume.remote,
                bytes: cache.usedBytes,
                limit: volume.cacheSize,
                cleared: cleared
            )
        }
        if arguments.has("json") { Console.bytes(try document(CacheReport(volumes: rows))) } else { show(rows, verb) }
        return 0
    }

    private static func selected(_ word: String?, _ instance: Instance) throws(CommandFailure) -> [VolumeDescription] {
        let volumes = instance.volumes()
        guard let word else { return volumes }
        guard let selection = try SelectionResolver(instance).resolve(word) else {
            throw CommandFailure("cache: \(word): not in a volume that was mounted here; see moorage status")
        }
        return volumes.filter { selection.volumes.contains($0.id) }
    }

    private static func show(_ rows: [CacheReport.Volume], _ verb: String) {
        if rows.isEmpty { Console.line("no volume was mounted here yet") }
        for row in rows {
            let cleared = verb == "clear" ? "cleared \(humanBytes(row.cleared)), now " : ""
            Console.line("\(row.remote)  \(cleared)\(humanBytes(row.bytes)) of \(humanBytes(row.limit))")
        }
    }
}

/// The document of `cache --json`.
struct CacheReport: Codable {
    struct Volume: Codable {
        var id: String
        var remote: String
        var bytes: Int64
        var limit: Int64
        /// What `clear` gave back, in bytes.
        var cleared: Int64
    }

    var volumes: [Volume]
}
