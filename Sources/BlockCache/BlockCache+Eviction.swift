// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform
internal import Synchronization

/// Keeping within the space allowed.
extension BlockCache {
    private struct StoredFile {
        var path: String
        var name: String
        var bytes: Int64
        var lastUse: Timestamp
    }

    /// Measures when enough may have changed, and removes the least recently used files above the limits.
    ///
    /// To be called every few seconds by the process that reads, and after adopting.
    package func maintain() {
        let free = (try? Files.freeSpace(at: options.directory)) ?? .max
        if source != nil, shared.condition.isDueForTrial() { tryDisk() }
        defer {
            let left = free < options.minimumFree ? (try? Files.freeSpace(at: options.directory)) ?? .max : free
            shared.condition.measured(free: left, minimumFree: options.minimumFree)
            shared.condition.tell()
        }
        let now = monotonicSeconds()
        let open = registry.withLock { $0.objects.values.map { $0.object } }
        added(open.reduce(0) { $0 + $1.takeUnmeasured() })
        let isDue = registry.withLock { registry in
            let growth = min(options.capacity / 16, 256 << 20)
            return registry.lastScan == 0 || registry.addedSinceScan > growth || now - registry.lastScan > 600
        }
        guard isDue || free < options.minimumFree else { return }
        trim(free: free)
    }

    /// The space taken when last measured, plus what may have been added since, in bytes.
    package var usedBytes: Int64 {
        registry.withLock { min($0.measured + $0.addedSinceScan, options.capacity) }
    }

    /// Removes every file that is not being read; returns the number of bytes given back.
    @discardableResult
    package func clear() -> Int64 {
        let files = scan()
        let removed = remove(files, bytes: .max)
        record(files.reduce(0) { $0 + $1.bytes } - removed)
        return removed
    }

    /// Finds out whether a disk that failed takes bytes again, and gives them back.
    private func tryDisk() {
        let path = "\(options.directory)/trial.\(Randomness.hexadecimal(bytes: 6))"
        defer { try? Files.removeIfPresent(path) }
        do {
            try Files.makeDirectories(options.directory)
            let file = try FileDescriptor.open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW)
            var bytes = [UInt8](repeating: 0x5A, count: 256 << 10)
            try file.write(bytes)
            guard try bytes.withUnsafeMutableBytes({ try file.read(into: $0, at: 0) }) == bytes.count else { return }
            shared.condition.stored()
        } catch {
            shared.condition.failed(error as? SystemError ?? SystemError.make(EIO, "write", path))
        }
    }

    private func trim(free: Int64) {
        let files = scan()
        let total = files.reduce(0) { $0 + $1.bytes }
        var surplus = total > options.capacity ? total - options.capacity / 10 * 9 : 0
        if free < options.minimumFree { surplus = max(surplus, options.minimumFree - free) }
        var removed: Int64 = 0
        if surplus > 0 {
            removed = remove(files.sorted { $0.lastUse < $1.lastUse }, bytes: surplus)
            if removed < surplus { releaseFromOpenObjects() }
            Log.info("cache", "removed \(removed) bytes of \(total)")
        }
        record(total - removed)
    }

    private func record(_ total: Int64) {
        registry.withLock { registry in
            registry.measured = total
            registry.addedSinceScan = 0
            registry.lastScan = monotonicSeconds()
        }
    }

    private func remove(_ files: [StoredFile], bytes: Int64) -> Int64 {
        var removed: Int64 = 0
        for file in files where removed < bytes {
            let isFree = registry.withLock { registry in
                guard registry.objects[file.name]?.pins ?? 0 == 0 else { return false }
                registry.objects[file.name] = nil
                return true
            }
            guard isFree, (try? Files.removeIfPresent(file.path)) != nil else { continue }
            removed += file.bytes
        }
        return removed
    }

    private func releaseFromOpenObjects() {
        let objects = registry.withLock { $0.objects.values.map { $0.object } }
        for object in objects { object.releaseDistantBlocks() }
    }

    private func scan() -> [StoredFile] {
        var files: [StoredFile] = []
        for folder in (try? Files.names(in: options.directory)) ?? [] where folder.bytes.count == 2 {
            let path = "\(options.directory)/\(folder.string)"
            for name in (try? Files.names(in: path)) ?? [] {
                let file = "\(path)/\(name.string)"
                guard let status = (try? FileStatus.of(file)) ?? nil, status.isRegularFile else { continue }
                files.append(
                    StoredFile(path: file, name: name.string, bytes: status.allocated, lastUse: status.modified)
                )
            }
        }
        return files
    }
}
