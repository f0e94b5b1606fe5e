// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import CurlTransport
import Digests
import HTTPWire
import ObjectStore
import Platform
import Stores
import Testing

/// What a store promises, on any server.
@Suite(.serialized) struct S3StoreTests {
    @Test func objectsGoThereAndBack() throws {
        let fixture = try StoreFixture()
        try fixture.store.check()
        let data = pattern(300_000)
        let version = try fixture.put("dir/a b+ü%.bin", data)
        #expect(version.size == 300_000)
        #expect(version.entityTag?.opaque == Hexadecimal.encode(Digest.of(data, .md5)))
        let status = try fixture.store.status(of: ObjectKey("dir/a b+ü%.bin"), cancellation: nil)
        #expect(status.version.isSame(as: version))
        #expect(status.version.lastModified != nil)
        #expect(try fixture.read("dir/a b+ü%.bin", version, ByteRange(0, 300_000)) == data)
        #expect(
            try fixture.read("dir/a b+ü%.bin", version, ByteRange(99_999, 200_001)) == Array(data[99_999..<200_001])
        )
        try fixture.store.delete(ObjectKey("dir/a b+ü%.bin"), condition: .none)
        try fixture.store.delete(ObjectKey("dir/a b+ü%.bin"), condition: .none)
        #expect(cause { _ = try fixture.store.status(of: ObjectKey("dir/a b+ü%.bin"), cancellation: nil) } == .notFound)
    }

    @Test func emptyObjectsAreReadWithoutARequest() throws {
        let fixture = try StoreFixture()
        let version = try fixture.put("empty", [])
        #expect(version.size == 0)
        #expect(try fixture.read("empty", version, ByteRange(0, 0)).isEmpty)
        #expect(cause { _ = try fixture.read("empty", version, ByteRange(0, 1)) } == .protocolViolation)
    }

    @Test func attributesTravelWithTheObject() throws {
        let fixture = try StoreFixture()
        let metadata = ObjectMetadata(
            mode: 0o100_640,
            uid: 1000,
            gid: 100,
            modified: Timestamp(nanoseconds: 1_700_000_000_123_456_789),
            contentType: "text/plain",
            other: ["note": "hello world"]
        )
        try fixture.put("file", [1], metadata: metadata)
        #expect(try fixture.store.status(of: ObjectKey("file"), cancellation: nil).metadata == metadata)
    }

    @Test func foldersAreListedWithTheirMarkers() throws {
        let fixture = try StoreFixture()
        if cause({ try fixture.put("f/", []) }) == .unsupported {
            #expect(StoreFixture.external != nil && fixture.store.capabilities.folderMarkers == false)
            return
        }
        for key in ["f/", "f/a", "f/b c", "f/sub/x", "f/sub/y/z", "g"] {
            try fixture.put(key, key == "f/" ? [] : [1, 2])
        }
        let root = try fixture.store.list(.root, recursive: false, continuation: nil)
        #expect(root.entries.map(\.key) == [ObjectKey("g")])
        #expect(root.folders == [ObjectKey("f")])
        let folder = try fixture.store.list(ObjectKey("f"), recursive: false, continuation: nil)
        #expect(folder.entries.map(\.key) == [ObjectKey("f/"), ObjectKey("f/a"), ObjectKey("f/b c")])
        #expect(folder.entries.map(\.version.size) == [0, 2, 2])
        #expect(folder.folders == [ObjectKey("f/sub")])
        let all = try fixture.store.list(ObjectKey("f"), recursive: true, continuation: nil)
        #expect(all.entries.count == 5 && all.folders.isEmpty && all.next == nil)
    }

    @Test func listingsTellWhatAHeadWouldOrNothing() throws {
        let fixture = try StoreFixture()
        let metadata = ObjectMetadata(
            mode: 0o120_777,
            uid: 7,
            gid: 8,
            modified: Timestamp(nanoseconds: 1_700_000_000_123_456_789),
            contentType: "text/x-é",
            other: ["note": "a <b> & \"c\""]
        )
        try fixture.put("a", [1], metadata: metadata)
        try fixture.put("b", [1, 2])
        // No element of XML can be named as this field is.
        try fixture.put("c", [3], metadata: ObjectMetadata(mode: 0o100_600, other: ["x!y": "z"]))
        for isRecursive in [false, true] {
            let page = try fixture.store.list(.root, recursive: isRecursive, continuation: nil)
            #expect(page.entries.map(\.key) == ["a", "b", "c"].map { ObjectKey($0) })
            for entry in page.entries {
                let told = try fixture.store.status(of: entry.key, cancellation: nil).metadata
                if let metadata = entry.metadata {
                    // A HEAD fills in a type where there is none.
                    #expect(metadata == told || metadata == ObjectMetadata())
                }
            }
            if StoreFixture.external == nil {
                #expect(page.entries.map(\.metadata) == [metadata, ObjectMetadata(), nil])
            }
        }
    }

    @Test func manyKeysComeInPages() throws {
        let fixture = try StoreFixture()
        let empty = try fixture.body([])
        for index in 0..<1100 {
            _ = try fixture.store.put(
                ObjectKey("k\(padded(index, 4))"),
                body: empty,
                metadata: ObjectMetadata(),
                condition: .none,
                progress: nil,
                cancellation: nil
            )
        }
        var keys: [ObjectKey] = []
        var next: String?
        repeat {
            let page = try fixture.store.list(.root, recursive: false, continuation: next)
            keys += page.entries.map(\.key)
            next = page.next
        } while next != nil
        #expect(keys.count == 1100)
        #expect(Set(keys).count == 1100)
    }

    @Test func writesHappenOnlyUnderTheirCondition() throws {
        let fixture = try StoreFixture()
        let first = try fixture.put("k", [1], condition: .absent)
        #expect(cause { try fixture.put("k", [2], condition: .absent) } == .preconditionFailed)
        let second = try fixture.put("k", [2], condition: .version(first))
        #expect(cause { try fixture.put("k", [3], condition: .version(first)) } == .preconditionFailed)
        #expect(cause { try fixture.store.delete(ObjectKey("k"), condition: .version(first)) } == .preconditionFailed)
        #expect(try fixture.read("k", second, ByteRange(0, 1)) == [2])
        try fixture.store.delete(ObjectKey("k"), condition: .version(second))
        #expect(cause { try fixture.store.delete(ObjectKey("k"), condition: .version(second)) } == .notFound)
        #expect(fixture.store.capabilities.conditionalWrites != nil)
        let left = try fixture.store.list(.root, recursive: true, continuation: nil)
        #expect(left.entries.isEmpty, "a probe was left behind")
    }

    @Test func anotherVersionIsNeverRead() throws {
        let fixture = try StoreFixture()
        let old = try fixture.put("k", pattern(1000))
        try fixture.put("k", pattern(999))
        #expect(cause { _ = try fixture.read("k", old, ByteRange(0, 10)) } == .preconditionFailed)
        try fixture.store.delete(ObjectKey("k"), condition: .none)
        #expect(cause { _ = try fixture.read("k", old, ByteRange(0, 10)) } == .notFound)
    }

    @Test func partsMakeAnObject() throws {
        let fixture = try StoreFixture()
        let key = ObjectKey("big file")
        let data = pattern(6 << 20)
        let upload = try fixture.store.createMultipartUpload(key, metadata: ObjectMetadata(mode: 0o100_644))
        let body = try fixture.body(data)
        var parts: [UploadedPart] = []
        for (number, range) in [(1, ByteRange(0, 5 << 20)), (2, ByteRange(5 << 20, 6 << 20))] {
            let tag = try fixture.store.uploadPart(
                key,
                uploadID: upload,
                number: number,
                body: UploadBody(descriptor: body.descriptor, range: range),
                md5: Digest.of(Array(data[Int(range.lower)..<Int(range.upper)]), .md5),
                progress: nil,
                cancellation: nil
            )
            parts.append(UploadedPart(number: number, size: range.count, entityTag: tag))
        }
        let listed = try fixture.store.listParts(key, uploadID: upload)
        #expect(listed.map(\.number) == [1, 2])
        #expect(listed.map(\.size) == [5 << 20, 1 << 20])
        let version = try fixture.store.completeMultipartUpload(key, uploadID: upload, parts: parts, condition: .absent)
        #expect(version.size == 6 << 20)
        #expect(try fixture.read("big file", version, ByteRange(0, 6 << 20)) == data)
        #expect(try fixture.store.status(of: key, cancellation: nil).metadata.mode == 0o100_644)
        #expect(cause { _ = try fixture.store.listParts(key, uploadID: upload) } == .noSuchUpload)
        try fixture.store.abortMultipartUpload(key, uploadID: upload)
    }

    @Test func anAbortedUploadIsGone() throws {
        let fixture = try StoreFixture()
        let upload = try fixture.store.createMultipartUpload(ObjectKey("k"), metadata: ObjectMetadata())
        try fixture.store.abortMultipartUpload(ObjectKey("k"), uploadID: upload)
        #expect(cause { _ = try fixture.store.listParts(ObjectKey("k"), uploadID: upload) } == .noSuchUpload)
    }

    @Test func uploadsInProgressAreListedForExactlyTheirKey() throws {
        let fixture = try StoreFixture()
        let key = ObjectKey("k +")
        let time = try fixture.store.serverTime()
        let uploads = try (0..<3).map { _ in
            try fixture.store.createMultipartUpload(key, metadata: ObjectMetadata())
        }
        for other in ["k", "k +1", "a/k +"] {
            _ = try fixture.store.createMultipartUpload(ObjectKey(other), metadata: ObjectMetadata())
        }
        let listed = try fixture.store.listMultipartUploads(key)
        #expect(Set(listed.map(\.uploadID)) == Set(uploads))
        let slack = listed.compactMap(\.initiated).map { $0.seconds - time.seconds }
        #expect(slack.count == 3 && slack.allSatisfy { (0...10).contains($0) })
        #expect(abs(time.seconds - Timestamp.now().seconds) < 5)
        for upload in uploads { try fixture.store.abortMultipartUpload(key, uploadID: upload) }
        #expect(try fixture.store.listMultipartUploads(key).isEmpty)
    }

    @Test func objectsAreCopiedAtTheServer() throws {
        let fixture = try StoreFixture()
        let source = try fixture.put("a b", pattern(5000), metadata: ObjectMetadata(uid: 7))
        let copy = try fixture.store.copy(
            ObjectKey("a b"),
            sourceVersion: source,
            to: ObjectKey("c/d+e"),
            metadata: nil,
            condition: .absent
        )
        #expect(try fixture.read("c/d+e", copy, ByteRange(0, 5000)) == pattern(5000))
        #expect(try fixture.store.status(of: ObjectKey("c/d+e"), cancellation: nil).metadata.uid == 7)
        let renewed = try fixture.store.copy(
            ObjectKey("c/d+e"),
            sourceVersion: copy,
            to: ObjectKey("c/d+e"),
            metadata: ObjectMetadata(uid: 8),
            condition: .version(copy)
        )
        #expect(try fixture.store.status(of: ObjectKey("c/d+e"), cancellation: nil).metadata.uid == 8)
        #expect(try fixture.read("c/d+e", renewed, ByteRange(0, 5000)) == pattern(5000))
        try fixture.put("a b", [1])
        let stale = cause {
            _ = try fixture.store.copy(
                ObjectKey("a b"),
                sourceVersion: source,
                to: ObjectKey("x"),
                metadata: nil,
                condition: .none
            )
        }
        #expect(stale == .preconditionFailed)
    }

    @Test func partsAreCopiedAtTheServer() throws {
        let fixture = try StoreFixture()
        let data = pattern(6 << 20)
        let source = try fixture.put("source", data)
        let key = ObjectKey("target")
        let upload = try fixture.store.createMultipartUpload(key, metadata: ObjectMetadata())
        do {
            let tag = try fixture.store.copyPart(
                key,
                uploadID: upload,
                number: 1,
                source: ObjectKey("source"),
                sourceVersion: source,
                range: ByteRange(100, 100 + 5 << 20)
            )
            let version = try fixture.store.completeMultipartUpload(
                key,
                uploadID: upload,
                parts: [UploadedPart(number: 1, size: 5 << 20, entityTag: tag)],
                condition: .none
            )
            let copied = try fixture.read("target", version, ByteRange(0, version.size))
            #expect(copied == Array(data[100..<(100 + 5 << 20)]))
        } catch {
            guard StoreFixture.external != nil, cause({ throw error }) == .unsupported else { throw error }
            #expect(fixture.store.capabilities.partCopy == false)
        }
    }

    @Test func aMissingBucketAndBadKeysAreTold() throws {
        let missing = try StoreFixture { $0.bucket = "no-such-bucket-here" }
        #expect(cause { try missing.store.check() } == .noSuchBucket)
        let listing = cause { _ = try missing.store.list(.root, recursive: false, continuation: nil) }
        #expect(listing == .noSuchBucket)
        let fixture = try StoreFixture()
        let wrong = try S3Store(
            configuration: S3StoreConfiguration(endpoint: fixture.endpoint, bucket: "bucket"),
            credentials: StaticCredentials(accessKeyID: "AKIATESTTESTTESTTEST", secretAccessKey: "wrong"),
            transport: fixture.transport
        )
        if StoreFixture.external == nil {
            #expect(cause { try wrong.check() } == .authentication)
        }
        #expect(
            cause {
                _ = try S3Store(
                    configuration: S3StoreConfiguration(endpoint: "ftp://x", bucket: "b"),
                    credentials: StaticCredentials.anonymous,
                    transport: fixture.transport
                )
            } == .invalidKey
        )
    }
}
