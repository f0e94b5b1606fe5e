// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// Keeping within the space allowed.
///
/// No pass over all files of a large cache: folders are measured a few at a time, and what is to go is chosen from the files
/// of a few folders. Only where a write finds no room on the disk, and nearly all that is there may not go, all are looked at.
extension BlockCache {
    struct StoredFile {
        var path: String
        var name: String
        var status: FileStatus
        /// Pinned files have a second name, see ``hold(_:)``.
        var isPinned: Bool

        var bytes: Int64 { status.allocated }
        var rank: EvictionPolicy.File {
            EvictionPolicy.File(
                bytes: bytes,
                lastUse: status.modified.nanoseconds,
                isProtected: CacheUse.isProtected(status)
            )
        }
    }

    /// How many files are looked at each time; a folder is always looked at as a whole.
    private static let pace = 1000
    /// How many are looked at when files are to go, of which none may: pinned ones, or those that are read.
    private static let mostLooks = 10_000
    /// How long a complete measure of a cache that nothing was added to is good for, in seconds.
    private static let measureAge = 60.0

    /// Measures a part of the cache, and gives up files when it is over a limit.
    ///
    /// To be called every few seconds by the process that reads, and after adopting.
    package func maintain() {
        if source != nil, shared.condition.isDueForTrial() { tryDisk() }
        shared.writer.expire()
        closeNameless()
        measure(atMost: Self.pace)
        keepWithinLimits()
        shared.condition.tell()
    }

    /// The space taken, in bytes: an estimate in a cache with very many files.
    package var usedBytes: Int64 { registry.withLock { $0.sizes.total } }

    /// Measures all of the cache now: for commands, which end soon.
    package func measureAll() { measure(atMost: .max) }

    /// Removes every file that is neither being read nor pinned; returns the number of bytes given back.
    @discardableResult
    package func clear() -> Int64 {
        (0..<FolderSizes.count).reduce(0) { removed, folder in
            removed + files(in: folder).reduce(0) { $0 + remove($1) }
        }
    }

    /// Measures folders in turn until so many files were looked at, or each folder was.
    private func measure(atMost limit: Int) {
        let now = monotonicSeconds()
        let isFresh = registry.withLock { registry in
            registry.sizes.isComplete && !registry.hasGrown && now - registry.measuredAt < Self.measureAge
        }
        guard !isFresh || limit == .max else { return }
        var looked = 0
        for _ in 0..<FolderSizes.count where looked < limit {
            let folder = registry.withLock { $0.sizes.next }
            looked += files(in: folder).count
        }
        guard looked < limit else { return }
        registry.withLock { registry in
            registry.measuredAt = now
            registry.hasGrown = false
        }
    }

    /// Gives up files until so many bytes are free; returns how many are.
    ///
    /// Each round chooses from the files of as many folders as it takes to have a fair sample. Where nearly all are pinned
    /// it may find none that can go; the next call begins with another folder.
    ///
    /// With `isPatient` all files are looked at where it takes that.
    @discardableResult
    func trim(_ surplus: Int64, isPatient: Bool = false) -> Int64 {
        let mostLooks = isPatient ? Int.max : Self.mostLooks
        var removed: Int64 = 0
        var folder = Int.random(in: 0..<FolderSizes.count)
        var left = FolderSizes.count
        var looks = 0
        while left > 0, removed < surplus, looks < mostLooks {
            var sample: [StoredFile] = []
            let isWhole = left == FolderSizes.count
            while left > 0, sample.count < Self.pace, looks < mostLooks {
                let found = files(in: folder)
                let eligible = found.filter { !isInUse($0) && !$0.isPinned }
                looks += found.count - eligible.count
                sample += eligible
                folder = (folder + 1) % FolderSizes.count
                left -= 1
            }
            let isSample = !(isWhole && left == 0)
            let victims = EvictionPolicy.victims(of: sample.map(\.rank), surplus: surplus - removed, isSample: isSample)
            // What is being read, and was never used before, counts as on probation: a pass over one very large file.
            if victims.contains(where: { CacheUse.isProtected(sample[$0].status) }) {
                let released = releaseFromOpenObjects()
                if released > 0 { return removed + released }
            }
            for index in victims { removed += remove(sample[index]) }
        }
        if removed < surplus { removed += releaseFromOpenObjects() }
        Log.info("cache", "removed \(removed) of \(surplus) bytes too many")
        return removed
    }

    private func isInUse(_ file: StoredFile) -> Bool {
        registry.withLock { $0.objects[file.name]?.uses ?? 0 > 0 }
    }

    /// Removes a file unless it is in use; returns the bytes given back.
    private func remove(_ file: StoredFile) -> Int64 {
        guard !file.isPinned else { return 0 }
        let isFree = registry.withLock { registry in
            guard registry.objects[file.name]?.uses ?? 0 == 0 else { return false }
            registry.objects[file.name] = nil
            return true
        }
        guard isFree, (try? Files.removeIfPresent(file.path)) != nil else { return 0 }
        added(-file.bytes, to: file.name)
        return file.bytes
    }

    /// Gives back what lies far from where objects are being read; returns how many bytes that was.
    private func releaseFromOpenObjects() -> Int64 {
        let objects = registry.withLock { $0.objects.values.filter { $0.uses > 0 }.map { $0.object } }
        return objects.reduce(0) { released, object in
            let bytes = object.releaseDistantBlocks()
            added(-bytes, to: object.name)
            return released + bytes
        }
    }

    /// The files of a folder, which counts as measured by that.
    func files(in folder: Int) -> [StoredFile] {
        let path = "\(options.directory)/\(FolderSizes.name(folder))"
        let found = ((try? Files.names(in: path)) ?? []).compactMap { name -> StoredFile? in
            let file = "\(path)/\(name.string)"
            guard let status = (try? FileStatus.of(file)) ?? nil, status.isRegularFile else { return nil }
            return StoredFile(path: file, name: name.string, status: status, isPinned: status.links > 1)
        }
        registry.withLock { $0.sizes.measured(folder, bytes: found.reduce(0) { $0 + $1.bytes }) }
        return found
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
}
