// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Configuration
internal import Control

/// `moorage cache verify`: compares what is kept with its checksums.
enum CacheVerificationCommand {
    /// Returns the exit status: 1 when something was wrong.
    static func run(_ words: [String], asJSON: Bool, _ instance: Instance) throws(CommandFailure) -> Int32 {
        let selections = try selections(words, instance)
        let rows = instance.volumes().compactMap { volume -> CacheVerificationReport.Volume? in
            let wanted = selections.filter { $0.volumes.contains(volume.id) }
            guard words.isEmpty || !wanted.isEmpty else { return nil }
            let paths = wanted.contains { $0.paths.isEmpty } ? [] : wanted.flatMap(\.paths).map { ObjectKey($0) }
            let cache = CacheFolder.open(volume, instance.directories.places(of: volume))
            let found = cache.verify { key in paths.isEmpty || paths.contains { key.isInside($0) } }
            return CacheVerificationReport.Volume(volume, found)
        }
        if asJSON {
            Console.bytes(try document(CacheVerificationReport(volumes: rows)))
        } else {
            show(rows)
        }
        return rows.contains { $0.isWrong } ? 1 : 0
    }

    private static func selections(
        _ words: [String],
        _ instance: Instance
    ) throws(CommandFailure) -> [UploadSelection] {
        let resolver = SelectionResolver(instance)
        var found: [UploadSelection] = []
        for word in words {
            guard let selection = try resolver.resolve(word) else {
                throw CommandFailure("cache: \(word): not in a volume that was mounted here; see moorage status")
            }
            found.append(selection)
        }
        return found
    }

    private static func show(_ rows: [CacheVerificationReport.Volume]) {
        if rows.isEmpty { Console.line("no volume was mounted here yet") }
        for row in rows {
            let sound = "\(counted(row.files, "file")), \(counted(row.soundBlocks, "sound block"))"
            var line = "\(row.remote)  \(sound), \(humanBytes(row.soundBytes))"
            if row.damagedBlocks > 0 { line += "; \(counted(row.damagedBlocks, "damaged block")) dropped" }
            if row.damagedFiles > 0 { line += "; \(counted(row.damagedFiles, "damaged file")) removed" }
            Console.line(line)
            for problem in row.problems { Console.line("  \(Console.oneLine(problem))") }
        }
    }
}

/// The document of `cache verify --json`.
struct CacheVerificationReport: Codable {
    struct Volume: Codable {
        var id: String
        var remote: String
        /// Files that were looked at.
        var files: Int
        var soundBlocks: Int
        var soundBytes: Int64
        /// Blocks that did not have their checksum and were dropped.
        var damagedBlocks: Int
        /// Files that were no cache files, and were removed.
        var damagedFiles: Int
        /// What could not be checked, or dropped, and why.
        var problems: [String]

        init(_ volume: VolumeDescription, _ found: CacheVerification) {
            id = volume.id
            remote = volume.remote
            files = found.files
            soundBlocks = found.soundBlocks
            soundBytes = found.soundBytes
            damagedBlocks = found.damagedBlocks
            damagedFiles = found.damagedFiles
            problems = found.problems
        }

        var isWrong: Bool { damagedBlocks > 0 || damagedFiles > 0 || !problems.isEmpty }

        private enum CodingKeys: String, CodingKey {
            case id, remote, files, problems
            case soundBlocks = "sound_blocks"
            case soundBytes = "sound_bytes"
            case damagedBlocks = "damaged_blocks"
            case damagedFiles = "damaged_files"
        }
    }

    var volumes: [Volume]
}
