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
    private let object: CachedObject?
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
        self.object = object
        self.cache = cache
        self.source = source
        planner = Lock(ReadPlanner(limits: cache.options.readahead))
    }

    deinit {
        if let object { cache.unpin(object) }
    }

    /// Calls `body` with the bytes of `range`, which lies within the object; blocks until they are there.
    ///
    /// Throws what the store says; `.preconditionFailed` when the remote no longer has this version.
    package func read<Value>(_ range: ByteRange, _ body: (CachedBytes) -> Value) throws(StoreError) -> Value {
        guard let object else {
            let bytes = try UncachedRead.read(key, version: version, range: range, from: source)
            return bytes.withUnsafeBytes { body(.memory($0)) }
        }
        let isHeld = object.hold(range)
        let presence = isHeld ? .resident : object.presence(of: range)
        let share = cache.share(of: self)
        let plan = planner.withLock {
            $0.read(range, objectSize: version.size, presence: presence, share: share)
        }
        if isHeld, plan.isEmpty {
            // The usual warm read: it looks at the object's state this once.
            if let value = object.readVerified(body) { return value }
        } else if isHeld {
            object.letGo()
        }
        return try object.read(range, plan, body)
    }

    /// Whether every byte of `range` is on the local disk.
    package func isResident(_ range: ByteRange) -> Bool {
        object?.isResident(range) ?? false
    }
}

extension CacheReader {
    /// The bytes of `range` in memory: for small contents.
    package func bytes(_ range: ByteRange) throws(StoreError) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: Int(range.count))
        let count = try read(range) { bytes in
            result.withUnsafeMutableBytes { buffer in
                switch bytes {
                case .memory(let source):
                    buffer.copyMemory(from: source)
                    return source.count
                case .file(let descriptor):
                    return (try? readAll(descriptor, into: buffer, at: range.lower)) ?? -1
                }
            }
        }
        guard count == result.count else { throw StoreError(.localInput, "\(key): the cache file cannot be read") }
        return result
    }
}
