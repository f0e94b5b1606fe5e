// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Digests
import HTTPWire
import TestSupport
import Testing

@testable import BucketServer

@Suite struct ObjectRecordTests {
    private var record: ObjectRecord {
        var record = ObjectRecord(
            entityTag: "abc-2",
            modified: Timestamp(nanoseconds: 1_234_567_890),
            stamp: FileStamp(size: 5, modified: -3, inode: .max)
        )
        record.fields = HTTPFields([
            .init(name: "Content-Type", value: "text/plain; charset=utf-8"),
            .init(name: "x-amz-meta-a", value: "  ü = 1 "), .init(name: "x-amz-meta-empty", value: ""),
            // A combining character makes one `Character` of itself and the space before it.
            .init(name: "x-amz-meta-b", value: "\u{301}acute \u{301}"),
        ])
        record.checksum = StoredChecksum(algorithm: "crc32", value: "AAAAAA==-2", isComposite: true)
        record.uploadID = "0123"
        return record
    }

    @Test func aRecordComesBackAsItWas() {
        #expect(ObjectRecord(encoded: record.encoded) == record)
    }

    @Test func aDamagedRecordIsNone() {
        #expect(ObjectRecord(encoded: []) == nil)
        #expect(ObjectRecord(encoded: Array("moorage 2\netag a".utf8)) == nil)
        #expect(ObjectRecord(encoded: Array("moorage 1\nmodified 1".utf8)) == nil)
        #expect(ObjectRecord(encoded: Array("moorage 1\netag a\nstamp 1 2 x".utf8)) == nil)
        var generator = SeededGenerator.random("aDamagedRecordIsNone")
        for _ in 0..<500 {
            var bytes = record.encoded
            bytes[Int.random(in: bytes.indices, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
            _ = ObjectRecord(encoded: bytes)
        }
    }

    @Test func anUploadComesBackAsItWas() {
        var upload = MultipartUpload(
            id: String(repeating: "a", count: 32),
            bucket: ObjectKey("bucket"),
            key: ObjectKey("a\nb/ü"),
            initiated: Timestamp(nanoseconds: 5)
        )
        upload.fields = record.fields
        upload.checksumAlgorithm = "crc64nvme"
        upload.isComposite = false
        #expect(MultipartUpload(id: upload.id, encoded: upload.encoded) == upload)
        #expect(!MultipartUpload.isValid(id: "../" + String(repeating: "a", count: 29)))
    }

    @Test func checksumsOfPiecesMakeTheChecksumOfTheWhole() throws {
        var generator = SeededGenerator.random("checksumsOfPiecesMakeTheChecksumOfTheWhole")
        for algorithm in [DigestAlgorithm.crc32, .crc32c, .crc64nvme] {
            let combination = try #require(ChecksumCombination(algorithm))
            for _ in 0..<20 {
                let pieces = (0..<Int.random(in: 1...5, using: &generator)).map { _ in
                    (0..<Int.random(in: 0...5000, using: &generator)).map { _ in
                        UInt8.random(in: 0...255, using: &generator)
                    }
                }
                let joined = combination.combine(pieces.map { (Digest.of($0, algorithm), Int64($0.count)) })
                #expect(joined == Digest.of(pieces.flatMap { $0 }, algorithm))
            }
        }
        #expect(ChecksumCombination(.sha256) == nil)
    }

    @Test func namesOfThisMachineAreKnown() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:9000", "127.9.9.9", "[::1]:1", "a.localhost"] {
            #expect(S3Authenticator.isLocalHost(host), "\(host)")
        }
        for host in [
            "example.org", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example", "[::2]", "127.1", "",
        ] {
            #expect(!S3Authenticator.isLocalHost(host), "\(host)")
        }
    }
}
