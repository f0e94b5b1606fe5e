// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
internal import Platform

/// What a check of the cache found.
package struct CacheVerification: Hashable, Sendable {
    /// Files that were looked at.
    package var files = 0
    /// Blocks with their checksum.
    package var soundBlocks = 0
    /// Bytes of those.
    package var soundBytes: Int64 = 0
    /// Blocks without it, or that could not be read; they were dropped.
    package var damagedBlocks = 0
    /// Files that are none of the cache's, or under another one's name; they were removed.
    package var damagedFiles = 0
    /// What was wrong and could not be dropped.
    package var problems: [String] = []

    /// How many problems are spelled out.
    fileprivate static let maximumProblems = 100

    package init() {}

    fileprivate mutating func note(_ problem: String) {
        if problems.count < Self.maximumProblems { problems.append(problem) }
    }
}

/// Checking what is kept.
extension BlockCache {
    /// Compares every block kept of the objects that `isWanted` with its checksum, and drops what is wrong.
    ///
    /// Can run while other processes read: they find a block that was dropped missing, or damaged, and fetch it again.
    package func verify(_ isWanted: (ObjectKey) -> Bool) -> CacheVerification {
        var result = CacheVerification()
        for folder in 0..<FolderSizes.count {
            // Other names are files about to be made.
            for file in files(in: folder) where file.name.count == 32 { verify(file, isWanted, &result) }
        }
        return result
    }

    private func verify(_ stored: StoredFile, _ isWanted: (ObjectKey) -> Bool, _ result: inout CacheVerification) {
        do throws(SystemError) {
            guard let examined = try CacheFile.examine(stored.path), examined.identity.name == stored.name else {
                result.files += 1
                result.damagedFiles += 1
                return try Files.removeIfPresent(stored.path)
            }
            guard isWanted(examined.identity.key) else { return }
            result.files += 1
            try verify(examined, &result)
        } catch {
            // What was evicted meanwhile is no problem.
            if error.code != ENOENT { result.note("\(stored.path): \(error)") }
        }
    }

    private func verify(
        _ examined: borrowing ExaminedCacheFile,
        _ result: inout CacheVerification
    ) throws(SystemError) {
        let geometry = examined.file.geometry
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(geometry.blockSize), alignment: 4096)
        defer { buffer.deallocate() }
        let slots = try examined.file.loadSlots()
        for (block, checksum) in slots.enumerated() {
            guard let checksum else { continue }
            if isSound(block, checksum, examined, buffer) {
                result.soundBlocks += 1
                result.soundBytes += geometry.range(of: block).count
            } else {
                result.damagedBlocks += 1
                try examined.file.clearSlots(of: block..<block + 1)
            }
        }
    }

    private func isSound(
        _ block: Int,
        _ checksum: UInt64,
        _ examined: borrowing ExaminedCacheFile,
        _ buffer: UnsafeMutableRawBufferPointer
    ) -> Bool {
        if (try? examined.file.checksum(of: block, buffer: buffer)) == checksum { return true }
        // Another process may have been about to give the block up, or to write it again.
        usleep(20_000)
        guard let now = try? examined.file.loadSlots(block..<block + 1).first, let now else { return true }
        return (try? examined.file.checksum(of: block, buffer: buffer)) == now
    }
}
