// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
internal import Platform

/// A small file in which the process that reads tells others how its cache is.
///
/// It lies with the state, since the cache's disk may be what fails, and has a fixed length, so that a full disk takes
/// a change of it all the same.
package struct CacheNote: ~Copyable, Sendable {
    private let descriptor: FileDescriptor

    private static let length = 1024

    /// Opens the file, with nothing to tell yet.
    package init(creating path: String) throws(SystemError) {
        descriptor = try FileDescriptor.open(path, O_WRONLY | O_CREAT | O_NOFOLLOW)
        write(CacheHealth())
    }

    package func write(_ health: CacheHealth) {
        let warning = (health.warning ?? "").map { $0.isNewline ? " " : $0 }
        var text = "damaged_blocks=\(health.damagedBlocks)\nuncached_reads=\(health.uncachedReads)\n"
        text += "used_bytes=\(health.usedBytes)\n"
        text += "warning=" + String(warning)
        var bytes = Array(text.utf8.prefix(Self.length - 1))
        bytes += [UInt8](repeating: UInt8(ascii: "\n"), count: Self.length - bytes.count)
        do {
            try bytes.withUnsafeBytes { try descriptor.write($0, at: 0) }
        } catch {
            Log.debug("cache", "its condition cannot be told: \(error)")
        }
    }

    /// What the process that reads told last.
    package struct Content: Hashable, Sendable {
        package var damagedBlocks = 0
        package var uncachedReads = 0
        /// The space taken, in bytes; nil when it was not told.
        package var usedBytes: Int64?
        package var warning: String?

        package init() {}
    }

    /// Reads a note; one that is missing or of another form tells nothing.
    package static func read(_ path: String) -> Content {
        var content = Content()
        guard let bytes = try? Files.read(path, limit: length) else { return content }
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
            let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { continue }
            switch parts[0] {
            case "damaged_blocks": content.damagedBlocks = Int(parts[1]) ?? 0
            case "uncached_reads": content.uncachedReads = Int(parts[1]) ?? 0
            case "used_bytes": content.usedBytes = Int64(parts[1])
            case "warning": content.warning = parts[1].isEmpty ? nil : String(parts[1])
            default: continue
            }
        }
        return content
    }
}
