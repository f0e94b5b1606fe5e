// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import ObjectStore
internal import Platform
internal import Synchronization

/// One open file's view of one object version: remembers the access pattern and keeps the object in the cache.
package final class CacheReader: Sendable {
    package let key: ObjectKey
    package let version: ObjectVersion
    /// Nil while the disk does not let us have one.
    private let held = OnceReference<CachedObject>()
    /// Held by who asks for it, so that it is pinned once.
    private let opening = Lock(())
    private let cache: BlockCache
    private let source: any RangeSource
    private let planner: Lock<ReadPlanner>
    private let isSparing = Atomic<Bool>(false)
    /// When it was counted last among those that read.
    let stamp = ActiveReaders.Stamp()

    init(
        key: ObjectKey,
        version: ObjectVersion,
        object: CachedObject?,
        cache: BlockCache,
        source: any RangeSource
    ) {
        self.key = key
        self.version = version
        if let object { _ = held.storeIfNil(object) }
        self.cache = cache
        self.source = source
        planner = Lock(ReadPlanner(limits: cache.options.readahead))
        source.opened(key, version: version)
    }

    deinit {
        source.closed(key, version: version)
        guard let object = held.load() else { return }
        if isSparing.load(ordering: .relaxed) { object.sparing.subtract(1, ordering: .releasing) }
        cache.unpin(object)
    }

    /// Calls `body` with the bytes of `range`, which lies within the object; blocks until they are there.
    ///
    /// Throws what the store says; `.preconditionFailed` when the remote no longer has this version.
    ///
    /// Not generic: it is called from another module, which costs a short read dearly.
    package func read(_ range: ByteRange, _ body: (CachedBytes) -> Void) throws(StoreError) {
        guard let object = object() else {
            cache.shared.condition.readUncached()
            let bytes = try UncachedRead.read(key, version: version, range: range, from: source)
            return bytes.withUnsafeBytes { body(.whole($0)) }
        }
        if let snapshot = object.snapshot.load(), snapshot.read(range, object.buffers, body) { return }
        let trust = object.trust(in: range)
        // Of an object that is all on the disk there is nothing to fetch ahead.
        let plan = trust?.isOfWholeObject == true ? ReadPlan() : plan(for: range, of: object, isTrusted: trust != nil)
        // The usual warm read looks at the object's state this once.
        if let trust, plan.isEmpty, object.readTrusted(range, trust.stamp, body) { return }
        try object.read(range, plan, body)
    }

    private func plan(for range: ByteRange, of object: CachedObject, isTrusted: Bool) -> ReadPlan {
        let presence = isTrusted ? .resident : object.presence(of: range)
        let share = cache.share(of: self)
        let line = cache.shared.gauge.line
        return planner.withLock {
            $0.read(range, objectSize: version.size, presence: presence, share: share, line: line)
        }
    }

    /// Gets the bytes of `range` onto the local disk; false when that does not take them.
    func keep(_ range: ByteRange) throws(StoreError) -> Bool {
        guard let object = object() else { return false }
        return try object.keep(range)
    }

    /// Has eviction leave alone all that is there of the object, and comes, for as long as the reader lives.
    package func spareAll() {
        guard let object = object(), !isSparing.exchange(true, ordering: .relaxed) else { return }
        // Within the monitor: whoever looks at the blocks afterwards sees what went before.
        object.monitor.inspect { _ in _ = object.sparing.add(1, ordering: .relaxed) }
    }

    /// A file of its own with exactly the object's bytes, all of which were verified, that nobody can change.
    ///
    /// Nil when there is none. Valid while the reader lives.
    package var unchangingFile: Int32? {
        object().flatMap { object in object.snapshot.load()?.descriptor(object.buffers) }
    }

    /// Whether there is one by now; opens nothing to find out.
    package var hasUnchangingFile: Bool {
        held.load().flatMap { object in object.snapshot.load()?.descriptor(object.buffers) } != nil
    }

    /// Whether every byte of `range` is on the local disk.
    package func isResident(_ range: ByteRange) -> Bool {
        held.load()?.isResident(range) ?? false
    }

    /// The cached object; asks for it again where there was none, when the disk may be tried again.
    private func object() -> CachedObject? {
        if let object = held.load() { return object }
        return opening.withLock { _ in
            if let object = held.load() { return object }
            guard cache.shared.condition.mayStore(), let object = cache.object(of: key, version: version) else {
                return nil
            }
            return held.storeIfNil(object)
        }
    }
}

extension CacheReader {
    /// The bytes of `range` in memory: for small contents.
    package func bytes(_ range: ByteRange) throws(StoreError) -> [UInt8] {
        var bytes: [UInt8] = []
        try read(range) { bytes = $0.array }
        return bytes
    }
}
