// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import ObjectStore
internal import Platform

/// One open file's view of one object version: remembers the access pattern and keeps the object in the cache.
package final class CacheReader: Sendable {
    package let key: ObjectKey
    package let version: ObjectVersion
    /// Nil while the disk does not let us have one.
    private let held: Lock<CachedObject?>
    private let cache: BlockCache
    private let source: any RangeSource
    private let planner: Lock<ReadPlanner>
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
        held = Lock(object)
        self.cache = cache
        self.source = source
        planner = Lock(ReadPlanner(limits: cache.options.readahead))
    }

    deinit {
        if let object = held.withLock({ $0 }) { cache.unpin(object) }
    }

    /// Calls `body` with the bytes of `range`, which lies within the object; blocks until they are there.
    ///
    /// Throws what the store says; `.preconditionFailed` when the remote no longer has this version.
    ///
    /// Not generic: it is called from another module, which costs a short read dearly.
    package func read(_ range: ByteRange, _ body: (UnsafeRawBufferPointer) -> Void) throws(StoreError) {
        guard let object = object() else {
            cache.shared.condition.readUncached()
            let bytes = try UncachedRead.read(key, version: version, range: range, from: source)
            return bytes.withUnsafeBytes(body)
        }
        let stamp = object.trustedStamp(of: range)
        let presence = stamp == nil ? object.presence(of: range) : .resident
        let share = cache.share(of: self)
        let plan = planner.withLock {
            $0.read(range, objectSize: version.size, presence: presence, share: share)
        }
        // The usual warm read looks at the object's state this once.
        if let stamp, plan.isEmpty, object.readTrusted(range, stamp, body) { return }
        try object.read(range, plan, body)
    }

    /// Gets the bytes of `range` onto the local disk; false when that does not take them.
    func keep(_ range: ByteRange) throws(StoreError) -> Bool {
        guard let object = object() else { return false }
        return try object.keep(range)
    }

    /// Whether every byte of `range` is on the local disk.
    package func isResident(_ range: ByteRange) -> Bool {
        held.withLock { $0 }?.isResident(range) ?? false
    }

    /// The cached object; asks for it again where there was none, when the disk may be tried again.
    private func object() -> CachedObject? {
        if let object = held.withLock({ $0 }) { return object }
        guard cache.shared.condition.mayStore(), let object = cache.object(of: key, version: version) else {
            return nil
        }
        let other = held.withLock { held in
            defer { held = held ?? object }
            return held
        }
        if let other { cache.unpin(other) }
        return other ?? object
    }
}

extension CacheReader {
    /// The bytes of `range` in memory: for small contents.
    package func bytes(_ range: ByteRange) throws(StoreError) -> [UInt8] {
        var bytes: [UInt8] = []
        try read(range) { bytes = Array($0) }
        return bytes
    }
}
