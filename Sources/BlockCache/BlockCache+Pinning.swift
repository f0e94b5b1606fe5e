// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
package import ObjectStore
internal import Platform

/// Keeping files whatever room others want.
///
/// A pinned file has a second name in the folder `pinned`: every process that evicts sees that in its status,
/// it survives restarts, and taking it away needs no look at the file.
extension BlockCache {
    private var pinnedFolder: String { "\(options.directory)/pinned" }

    /// Gives the file of an object version its second name; returns the file's name.
    package func hold(_ reader: CacheReader) throws(SystemError) -> String {
        let name = Self.name(reader.key, reader.version)
        let path = "\(options.directory)/\(name.prefix(2))/\(name)"
        let second = "\(pinnedFolder)/\(name)"
        try Files.makeDirectories(pinnedFolder)
        if let kept = try FileStatus.of(second) {
            if try FileStatus.of(path)?.inode == kept.inode { return name }
            // The file was damaged or deleted, and is another one now.
            try Files.removeIfPresent(second)
        }
        if link(path, second) != 0 { throw SystemError.last("link", second) }
        return name
    }

    /// The file of an object version when it is held, else nil: its name and when it was changed last.
    ///
    /// No block goes from a file without changing it.
    package func heldFile(of key: ObjectKey, version: ObjectVersion) -> (name: String, changed: Timestamp)? {
        let name = Self.name(key, version)
        guard let status = (try? FileStatus.of("\(pinnedFolder)/\(name)")) ?? nil, status.links > 1 else { return nil }
        return (name, status.changed)
    }

    /// Lets go of all files that were held but for these.
    package func releaseHeld(except names: Set<String>) {
        for name in (try? Files.names(in: pinnedFolder)) ?? [] where !names.contains(name.string) {
            try? Files.removeIfPresent("\(pinnedFolder)/\(name.string)")
        }
    }
}

extension CacheReader {
    /// Fetches what is missing of the object, a few megabytes at a time, until all is there or `isWanted` says no.
    ///
    /// Returns whether all is there.
    package func complete(while isWanted: () -> Bool) throws(StoreError) -> Bool {
        for range in pieces where !isResident(range) {
            guard isWanted(), try keep(range) else { return false }
        }
        return true
    }

    /// How many bytes of the object are there.
    package var residentBytes: Int64 {
        pieces.reduce(0) { $0 + (isResident($1) ? $1.count : 0) }
    }

    private var pieces: [ByteRange] {
        let length: Int64 = 4 << 20
        return stride(from: 0, to: version.size, by: Int64.Stride(length)).map {
            ByteRange($0, min(version.size, $0 + length))
        }
    }
}
