// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import CXXHash
internal import Glibc
internal import ObjectStore
internal import Platform
internal import Synchronization

/// Bytes of remote objects on the local disk, one sparse file an object version.
///
/// The folder may be deleted, damaged or full at any moment without a wrong
/// byte: names are hashes that the file's trailer spells out, blocks carry
/// checksums, and what cannot be kept is read past the cache. Two processes may
/// use one folder: files appear by rename and go by unlink, which hurts no reader.
/// Lock order: `registry` before an object's monitor.
package final class BlockCache: Sendable {
    /// Where and how much.
    package struct Options: Hashable, Sendable {
        /// The folder, created with mode 0700 when missing.
        package var directory: String
        /// The length of a block in bytes, for objects up to 64 GiB.
        package var blockSize: Int64
        /// The most space to take, in bytes.
        package var capacity: Int64
        /// The space to leave free on the disk, in bytes.
        package var minimumFree: Int64
        package var readahead: ReadPlanner.Limits
        /// Where to tell other processes how the cache is; nil to keep it to oneself.
        package var note: String?
        /// Whether complete files are read from snapshots, which the kernel may be given, where the disk can make them.
        package var takesSnapshots = false

        package init(
            directory: String,
            blockSize: Int64 = 32 << 10,
            capacity: Int64 = 10 << 30,
            minimumFree: Int64 = 512 << 20,
            readahead: ReadPlanner.Limits = ReadPlanner.Limits(),
            note: String? = nil
        ) {
            self.directory = directory
            self.blockSize = blockSize
            self.capacity = capacity
            self.minimumFree = minimumFree
            self.readahead = readahead
            self.note = note
        }
    }

    /// What all objects of a cache have in common.
    struct Shared: Sendable {
        let budget = FetchBudget(limit: BlockCache.readaheadFetches)
        let gauge = LineGauge()
        let buffers = BlockBuffers()
        let writer: ArrivalWriter
        let condition: CacheCondition
        let wholeObjectLimit: Int64
        let thrift = Thrift()
        let snapshots = SnapshotAbility()
        let room = CacheRoom()
    }

    /// Whether the disk can make snapshots, as far as is known.
    final class SnapshotAbility: Sendable {
        let isThere = Atomic<Bool>(true)
    }

    /// Whether nothing is to be fetched that nobody has asked for.
    final class Thrift: Sendable {
        let isOn = Atomic<Bool>(false)
    }

    struct Registration {
        var object: CachedObject
        /// Readers that have it open.
        var uses: Int
        var lastUse: Double
    }

    struct Registry {
        var objects: [String: Registration] = [:]
        var sizes = FolderSizes()
        /// Whether bytes were added since all folders were measured.
        var hasGrown = false
        /// When all folders had been measured last, in monotonic seconds.
        var measuredAt = 0.0
    }

    package let options: Options
    let registry = Lock(Registry())
    let source: FetchQueue?
    let shared: Shared
    private let readers = ActiveReaders()
    /// Held by who has files given up; before when it would be in vain, in monotonic seconds.
    let yielding = Lock(-Double.infinity)
    /// The most that all readers together may have ahead of them, in bytes.
    static let readaheadBudget: Int64 = 128 << 20
    /// How many fetches there may be at once.
    ///
    /// A transport has 16 connections to a host, for all that is asked of it: the others are for names, which would have
    /// to wait for the end of whole pieces otherwise.
    private static let fetches = 13
    /// With how many of them another one begins that nobody waits for: the others are for reads that are waited for.
    private static let readaheadFetches = 10
    /// Idle objects kept open, so that a file that is read again and again is verified once.
    private static let maximumIdle = 256

    /// Opens the cache; without a `source` it can only adopt, measure and trim.
    ///
    /// A folder that cannot be made or used is no error: reads go past the cache then.
    package init(options: Options, source: (any RangeSource)?) {
        self.options = options
        self.source = source.map { FetchQueue($0, limit: Self.fetches) }
        shared = Shared(
            writer: ArrivalWriter(startsThreads: source != nil),
            condition: CacheCondition(note: options.note),
            wholeObjectLimit: min(CachedObject.wholeObjectLimit, options.readahead.maximumWindow)
        )
        do throws(SystemError) {
            try Files.makeDirectories(options.directory)
        } catch {
            shared.condition.failed(error)
        }
        shared.room.serve { [weak self] in self?.keepWithinLimits() ?? .max }
    }

    deinit {
        shared.writer.stop()
    }

    /// Whether files on the file system of this folder can be cloned, as ``Options/takesSnapshots`` needs it.
    package static func canTakeSnapshots(in folder: String) -> Bool { Snapshot.isPossible(in: folder) }

    /// Gives up every fetch, as nobody reads any more, and tells other processes the last of the counts.
    package func close() {
        let objects = registry.withLock { $0.objects.values.map(\.object) }
        for object in objects { object.cancelFetches() }
        shared.condition.tell()
    }

    /// Has people told why a file that the server sends in one answer only is not kept on the disk; nil: none is read.
    package func noteWholeFile(_ error: SystemError?) { shared.condition.failedWholeFile(error) }

    /// How it goes with keeping what is read.
    package var health: CacheHealth { shared.condition.current }

    /// Whether only blocks that are read are fetched, as the network is to be spared.
    package var isThrifty: Bool { shared.thrift.isOn.load(ordering: .relaxed) }

    /// Has only blocks fetched that are read from now on, or more again; what is under way goes on.
    package func setThrifty(_ isThrifty: Bool) { shared.thrift.isOn.store(isThrifty, ordering: .relaxed) }

    /// A reader of one object version; the object stays in the cache while the reader lives.
    package func reader(of key: ObjectKey, version: ObjectVersion) -> CacheReader {
        guard let source else { preconditionFailure("a cache without a source cannot read") }
        return CacheReader(
            key: key,
            version: version,
            object: object(of: key, version: version),
            cache: self,
            source: source
        )
    }

    /// The cached object, in use until ``unpin(_:)``; nil when the disk does not let us.
    func object(of key: ObjectKey, version: ObjectVersion) -> CachedObject? {
        guard let source else { return nil }
        do throws(SystemError) {
            return try pin(key, version, source)
        } catch {
            shared.condition.failed(error)
            return nil
        }
    }

    /// Makes a complete file the cached content of a version by moving it into the cache.
    ///
    /// Whatever happens, the file is gone from `path` afterwards: the caller has given it up.
    package func adopt(
        _ path: String,
        as key: ObjectKey,
        version: ObjectVersion,
        check: (any FileCheck)? = nil
    ) {
        do {
            let target = try filePath(Self.name(key, version))
            let file = try CacheFile.adopt(
                path,
                key: key,
                version: version,
                preferredBlockSize: options.blockSize,
                check: check
            )
            if moorage_renameat2(AT_FDCWD, path, AT_FDCWD, target, UInt32(moorage_RENAME_NOREPLACE)) != 0 {
                throw SystemError.last("renameat2", target)
            }
            CacheUse.note(file.descriptor, isNew: true)
            added(version.size, to: Self.name(key, version))
        } catch {
            Log.debug("cache", "not adopted: \(error)")
            try? Files.removeIfPresent(path)
        }
    }

    /// Whether all bytes of the version are in the cache.
    package func holds(_ key: ObjectKey, version: ObjectVersion) -> Bool {
        let reader = reader(of: key, version: version)
        return reader.isResident(ByteRange(0, version.size))
    }

    /// What a reader may have ahead, in bytes: as much as every other one that reads now; nothing where that is too little
    /// to be worth a request.
    func share(of reader: CacheReader) -> Int64 {
        guard !isThrifty else { return 0 }
        let share = Self.readaheadBudget / Int64(readers.count(with: reader.stamp))
        return share < Line.shortestRange ? 0 : share
    }

    private func pin(
        _ key: ObjectKey,
        _ version: ObjectVersion,
        _ source: FetchQueue
    ) throws(SystemError) -> CachedObject {
        let name = Self.name(key, version)
        if let object = pinExisting(name, key, version) {
            CacheUse.note(object.file.descriptor, isNew: false)
            return object
        }
        let file = try CacheFile.open(
            filePath(name),
            key: key,
            version: version,
            preferredBlockSize: options.blockSize
        )
        CacheUse.note(file.descriptor, isNew: file.isNew)
        let object = try CachedObject(
            key: key,
            version: version,
            name: name,
            file: file,
            source: source,
            shared: shared
        )
        if options.takesSnapshots { takeSnapshot(of: object) }
        return registry.withLock { registry in
            // Another thread may have opened it meanwhile; one object must own the file's state.
            if let other = registry.objects[name], other.object.key == key {
                registry.objects[name]?.uses += 1
                return other.object
            }
            registry.objects[name] = Registration(object: object, uses: 1, lastUse: monotonicSeconds())
            return object
        }
    }

    /// What comes later is in the kernel's memory already, and on its way to the disk, for which a snapshot would wait.
    private func takeSnapshot(of object: CachedObject) {
        let checksums = object.monitor.inspect { $0.blocks.missingCount == 0 ? $0.checksums : [] }
        guard !checksums.isEmpty, shared.snapshots.isThere.load(ordering: .relaxed) else { return }
        do throws(SystemError) {
            _ = try object.snapshot.storeIfNil(Snapshot(of: object.file, checksums: checksums, in: options.directory))
        } catch {
            guard [EOPNOTSUPP, EXDEV, EINVAL, ENOTTY, EISDIR].contains(error.code) else { return }
            if shared.snapshots.isThere.exchange(false, ordering: .relaxed) {
                Log.info("cache", "its file system cannot clone files, so that the kernel reads none of them by itself")
            }
        }
    }

    private func pinExisting(_ name: String, _ key: ObjectKey, _ version: ObjectVersion) -> CachedObject? {
        registry.withLock { registry in
            guard let found = registry.objects[name], found.object.key == key, found.object.version.isSame(as: version)
            else { return nil }
            // A file without a name keeps nothing for the next start: who comes anew begins another.
            if found.uses == 0, FileStamp(found.object.file.descriptor.raw)?.links == 0 {
                registry.objects[name] = nil
                return nil
            }
            registry.objects[name]?.uses += 1
            return found.object
        }
    }

    func unpin(_ object: CachedObject) {
        added(object.takeUnmeasured(), to: object.name)
        let (ahead, idle) = registry.withLock { registry in
            registry.objects[object.name]?.uses -= 1
            registry.objects[object.name]?.lastUse = monotonicSeconds()
            // Within the lock, so that nothing is given up that the next reader has asked for.
            let isLeft = registry.objects[object.name]?.uses == 0
            return (isLeft ? object.giveUpAhead() : [], Self.takeIdle(&registry))
        }
        for fetch in ahead { fetch.cancel() }
        for object in idle { object.cancelFetches() }
    }

    /// Takes out those that were not used for longest, when too many are idle.
    private static func takeIdle(_ registry: inout Registry) -> [CachedObject] {
        let unused = registry.objects.filter { $0.value.uses == 0 }
        guard unused.count > maximumIdle else { return [] }
        let oldest = unused.sorted { $0.value.lastUse < $1.value.lastUse }.prefix(unused.count / 2)
        for entry in oldest { registry.objects[entry.key] = nil }
        return oldest.map { $0.value.object }
    }

    /// Notes bytes that a file takes more, or less.
    func added(_ bytes: Int64, to name: String) {
        guard bytes != 0 else { return }
        registry.withLock { registry in
            registry.sizes.add(bytes, to: FolderSizes.folder(of: name))
            if bytes > 0 { registry.hasGrown = true }
        }
    }

    /// The file's name: a hash of what the trailer spells out.
    static func name(_ key: ObjectKey, _ version: ObjectVersion) -> String {
        name(
            key,
            validator: version.entityTag?.fieldValue ?? "\(version.lastModified?.seconds ?? 0)",
            size: version.size
        )
    }

    /// The same, of the entity tag, or without one of the time in seconds.
    static func name(_ key: ObjectKey, validator: String, size: Int64) -> String {
        let bytes = key.bytes + [0] + Array("\(validator)\0\(size)".utf8)
        let hash = bytes.withUnsafeBytes { XXH3_128bits($0.baseAddress, $0.count) }
        return hexadecimalString(
            [hash.high64, hash.low64].flatMap { word in
                (0..<8).reversed().map { UInt8(truncatingIfNeeded: word >> (UInt64($0) * 8)) }
            }
        )
    }

    func filePath(_ name: String) throws(SystemError) -> String {
        let folder = "\(options.directory)/\(name.prefix(2))"
        try Files.makeDirectories(folder)
        return "\(folder)/\(name)"
    }
}
