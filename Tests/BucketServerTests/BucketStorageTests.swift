// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import HTTPWire
import Platform
import Synchronization
import Testing

@testable import BucketServer

@Suite struct BucketStorageTests {
    private func condition(_ name: String, _ value: String) -> WriteConditions {
        WriteConditions(HTTPFields([.init(name: name, value: value)]))
    }

    @Test func aRecordStaysWithItsFile() throws {
        let folder = try TestFolder()
        let storage = try folder.storage()
        let fields = HTTPFields([.init(name: "x-amz-meta-a", value: "b")])
        let written = try storage.put("a/b", [1, 2, 3], tag: "first", fields: fields)
        #expect(try storage.record("a/b") == written)
        #expect(try Files.names(in: storage.privateDirectory + "/temporary").isEmpty)
    }

    @Test func aFileChangedByOthersGetsANewTagAndKeepsItsFields() throws {
        let folder = try TestFolder()
        let storage = try folder.storage()
        let fields = HTTPFields([
            .init(name: "Content-Type", value: "a/b"), .init(name: "x-amz-meta-mtime", value: "1"),
        ])
        try storage.put("key", [1], tag: "ours", fields: fields)
        try folder.write([1, 2], to: "bucket/key")
        let record = try storage.record("key")
        #expect(record.entityTag == "0cb988d042a7f28dd5fe2b55b3f5ac7a")
        #expect(record.fields.fields.map(\.name) == ["Content-Type"])
    }

    @Test func aRecordTooLargeForAnAttributeIsKeptAllTheSame() throws {
        let folder = try TestFolder()
        let storage = try folder.storage()
        let fields = HTTPFields([.init(name: "x-amz-meta-a", value: String(repeating: "x", count: 40_000))])
        try storage.put("key", tag: "large", fields: fields)
        #expect(try storage.record("key").fields == fields)
        let sidecars = storage.privateDirectory + "/records"
        let kept = try Files.names(in: sidecars).count
        try storage.put("key", tag: "small")
        #expect(try storage.record("key").entityTag == "small")
        #expect(try Files.names(in: sidecars).count == max(0, kept - 1))
    }

    @Test func conditionsDecideAboutWritesAndDeletions() throws {
        let folder = try TestFolder()
        let storage = try folder.storage()
        #expect(throws: StorageError.noSuchKey) { try storage.put("key", if: condition("If-Match", "\"a\"")) }
        try storage.put("key", tag: "a", if: condition("If-None-Match", "*"))
        #expect(throws: StorageError.preconditionFailed) { try storage.put("key", if: condition("If-None-Match", "*")) }
        #expect(throws: StorageError.preconditionFailed) { try storage.put("key", if: condition("If-Match", "\"b\"")) }
        try storage.put("key", tag: "b", if: condition("If-Match", "a"))
        #expect(throws: StorageError.preconditionFailed) { try storage.remove("key", condition("If-Match", "\"a\"")) }
        try storage.remove("key", condition("If-Match", "*"))
        #expect(try storage.keys().isEmpty)
    }

    @Test func ofManyWritersOfOneVersionOneWins() throws {
        let folder = try TestFolder()
        let storage = try folder.storage()
        try storage.put("d/key", tag: "0")
        for round in 0..<20 {
            let winners = Mutex<[Int]>([])
            var threads: [ThreadBox] = []
            for number in 0..<6 {
                threads.append(
                    try ThreadBox {
                        let match = self.condition("If-Match", "\"\(round)\"")
                        if (try? storage.put("d/key", tag: "\(round + 1)", if: match)) != nil {
                            winners.withLock { $0.append(number) }
                        }
                    }
                )
            }
            for thread in threads { thread.join() }
            #expect(winners.withLock { $0.count } == 1)
        }
    }

    @Test func foldersComeAndGoWithTheirObjects() throws {
        let folder = try TestFolder()
        let storage = try folder.storage()
        try storage.put("a/b/c/d")
        try storage.put("a/b/")
        try storage.remove("a/b/c/d")
        #expect(try storage.keys() == ["a/b/"])
        #expect(try Files.names(in: folder.path + "/bucket/a/b").isEmpty)
        try storage.remove("a/b/")
        #expect(try Files.names(in: folder.path + "/bucket").isEmpty)
        try Files.makeDirectories(folder.path + "/bucket/left/over")
        try storage.put("left")
        #expect(try storage.keys() == ["left"])
        #expect(throws: StorageError.parentIsObject) { try storage.put("left/right") }
    }

    @Test func writersAndDeletersOfOneFolderDoNotDisturbEachOther() throws {
        let folder = try TestFolder()
        let storage = try folder.storage()
        let failures = Mutex<[String]>([])
        var threads: [ThreadBox] = []
        for number in 0..<4 {
            threads.append(
                try ThreadBox {
                    for _ in 0..<100 {
                        do {
                            try storage.put("x/y/z/\(number)")
                            try storage.remove("x/y/z/\(number)")
                        } catch {
                            failures.withLock { $0.append("\(error)") }
                        }
                    }
                }
            )
        }
        for thread in threads { thread.join() }
        #expect(failures.withLock { $0 }.isEmpty)
        #expect(try Files.names(in: folder.path + "/bucket").isEmpty)
    }

    @Test func takingFilesOverLeavesTheUmaskAlone() throws {
        let folder = try TestFolder()
        let storage = try folder.storage()
        try folder.write([1], to: "file")
        let path = "\(folder.path)/file"
        func mask() throws -> [UInt8] {
            let lines = try Files.read("/proc/self/status").split(separator: UInt8(ascii: "\n"))
            return Array(lines.first { $0.starts(with: "Umask:".utf8) } ?? [])
        }
        let before = try mask()
        let threads = try (0..<8).map { _ in
            try ThreadBox { for _ in 0..<500 { _ = try? storage.adopt(path, size: 1) } }
        }
        for _ in 0..<200 { #expect(try mask() == before) }
        for thread in threads { thread.join() }
        #expect(try mask() == before)
        #expect(try FileStatus.of(path)?.mode == S_IFREG | storage.fileMode)
    }

    @Test func onlyOneStorageHasAFolder() throws {
        let folder = try TestFolder()
        let storage = try folder.storage()
        #expect(throws: SystemError.self) { try BucketStorage(directory: folder.path, syncs: false) }
        withExtendedLifetime(storage) {}
    }

    @Test func leftoversOfACrashAreCleared() throws {
        let folder = try TestFolder()
        try folder.write([1], to: ".moorage/temporary/half")
        let storage = try folder.storage()
        #expect(try Files.names(in: storage.privateDirectory + "/temporary").isEmpty)
    }

    @Test(arguments: ["", "a//b", "/a", "a/../b", "..", ".", "a/.", "a\0b", String(repeating: "x", count: 256)])
    func keysThatAFolderCannotHoldAreRefused(_ key: String) {
        #expect(throws: StorageError.self) { try ObjectPath(bucket: ObjectKey("bucket"), key: ObjectKey(key)) }
    }

    @Test(arguments: [".moorage", "..", "", "a/b", ".hidden"])
    func foldersThatAreNoBucketsStayHidden(_ name: String) throws {
        let folder = try TestFolder()
        let storage = try folder.storage()
        #expect(throws: StorageError.noSuchBucket) { try storage.openBucket(ObjectKey(name)) }
        #expect(try storage.buckets().map(\.name.string) == ["bucket"])
    }
}

/// A thread that can be kept in an array.
final class ThreadBox {
    private let done = Monitor(false)

    init(_ body: @escaping @Sendable () -> Void) throws {
        let done = done
        try Thread.detached(name: "test") {
            body()
            done.update { $0 = true }
        }
    }

    func join() { _ = done.wait { $0 ? true : nil } }
}
