// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import HTTPWire
import Platform

@testable import BucketServer

/// A temporary folder that is removed with everything in it, and the seed of a test's random choices.
final class TestFolder {
    let path: String

    init() throws {
        path = "/tmp/moorage-server-tests-\(Randomness.hexadecimal(bytes: 8))"
        try Files.makeDirectories(path)
    }

    deinit { Self.remove(path) }

    private static func remove(_ path: String) {
        for name in (try? Files.names(in: path)) ?? [] {
            let child = path + "/" + name.string
            if (try? FileStatus.of(child))??.isDirectory == true { remove(child) } else { unlink(child) }
        }
        rmdir(path)
    }

    func write(_ content: [UInt8], to name: String) throws {
        try Files.makeDirectories(Files.parent(of: path + "/" + name))
        let file = try FileDescriptor.open(path + "/" + name, O_WRONLY | O_CREAT | O_TRUNC)
        try file.write(content)
    }

    /// A storage over this folder with an empty bucket `bucket`; without fsync, which tests do not wait for.
    func storage() throws -> BucketStorage {
        let storage = try BucketStorage(directory: path, syncs: false)
        if try storage.buckets().isEmpty { try storage.createBucket(ObjectKey("bucket")) }
        return storage
    }
}

extension BucketStorage {
    /// Stores content under a key, with a tag of its own.
    @discardableResult
    func put(
        _ key: String,
        _ content: [UInt8] = [1],
        tag: String = "tag",
        fields: HTTPFields = HTTPFields(),
        if conditions: WriteConditions = WriteConditions()
    ) throws -> ObjectRecord {
        let path = try ObjectPath(bucket: ObjectKey("bucket"), key: ObjectKey(key))
        var record = ObjectRecord(entityTag: tag, modified: Timestamp.now(), stamp: nil)
        record.fields = fields
        if path.isFolder {
            try putMarker(record, at: path, conditions)
            return record
        }
        let staged = try stage()
        try staged.file.descriptor.write(content)
        return try commit(staged, record, at: path, conditions)
    }

    func record(_ key: String) throws -> ObjectRecord {
        try object(at: ObjectPath(bucket: ObjectKey("bucket"), key: ObjectKey(key))).record
    }

    func remove(_ key: String, _ conditions: WriteConditions = WriteConditions()) throws {
        try delete(ObjectPath(bucket: ObjectKey("bucket"), key: ObjectKey(key)), conditions)
    }

    func keys(_ request: ListingRequest = ListingRequest()) throws -> [String] {
        try list(ObjectKey("bucket"), request).items.map(\.key.string)
    }
}
