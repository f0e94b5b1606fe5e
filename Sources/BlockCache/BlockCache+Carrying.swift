// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
internal import ObjectStore
internal import Platform

/// Keeping what is cached when an object gets another name, or another version of which most is the same.
extension BlockCache {
    /// A version of an object.
    package typealias Cached = (key: ObjectKey, version: ObjectVersion)

    /// What is copied takes space and time at once; more is fetched again when it is wanted.
    private static let carryLimit: Int64 = 2 << 30

    /// Gives a new version what is cached of another one, whose bytes it has at the same offsets but for `changed`.
    ///
    /// The old file stays for those who read it, and goes as everything that is not used. `local` is a file with bytes of
    /// the new version, in `extents`. Without a file of the old version, and where there is one of the new, nothing happens.
    package func carry(
        from old: Cached,
        to new: Cached,
        changed: ExtentSet,
        local: String? = nil,
        extents: ExtentSet = ExtentSet()
    ) {
        do throws(SystemError) {
            let target = try filePath(Self.name(new.key, new.version))
            guard try FileStatus.of(target) == nil, let file = try stored(old) else { return }
            let free = (try? Files.freeSpace(at: options.directory)) ?? 0
            let limit = min(Self.carryLimit, options.capacity / 4, free - options.minimumFree)
            var inheritance = CacheFile.Inheritance(changed: changed, limit: limit)
            if let local {
                let descriptor = try FileDescriptor.open(local, O_RDONLY | O_NOFOLLOW)
                inheritance.local = (descriptor.raw, extents)
                try inherit(file, inheritance, new, target)
                withExtendedLifetime(descriptor) {}
            } else {
                try inherit(file, inheritance, new, target)
            }
        } catch {
            Log.debug("cache", "nothing is carried over: \(error)")
        }
    }

    private func inherit(
        _ file: borrowing CacheFile,
        _ inheritance: CacheFile.Inheritance,
        _ new: Cached,
        _ target: String
    ) throws(SystemError) {
        let bytes = try CacheFile.inherit(
            from: file,
            inheritance,
            at: target,
            key: new.key,
            version: new.version
        )
        if bytes > 0 { added(bytes, to: Self.name(new.key, new.version)) }
    }

    /// The file of a version, if there is one.
    private func stored(_ object: Cached) throws(SystemError) -> CacheFile? {
        let path = try filePath(Self.name(object.key, object.version))
        return try CacheFile.existing(path, key: object.key, version: object.version)
    }
}
