// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import HTTPWire
import Platform
import Testing

@testable import BucketServer

@Suite struct ConcurrentPartTests {
    private static let size = 5 << 20
    private let folder: TestFolder
    private let storage: BucketStorage
    private let path: ObjectPath
    private let upload: MultipartUpload

    init() throws {
        folder = try TestFolder()
        storage = try folder.storage()
        path = try ObjectPath(bucket: ObjectKey("bucket"), key: ObjectKey("key"))
        upload = try storage.createUpload(
            at: path,
            fields: HTTPFields(),
            checksumAlgorithm: nil,
            isComposite: true
        )
    }

    /// Sends part 1 filled with a byte, which is its tag too; `meanwhile` runs when it has been received.
    private func send(_ byte: UInt8, meanwhile: () throws(StorageError) -> Void = {}) throws(StorageError) {
        try Self.send(byte, storage, upload, meanwhile)
    }

    private static func send(
        _ byte: UInt8,
        _ storage: BucketStorage,
        _ upload: MultipartUpload,
        _ meanwhile: () throws(StorageError) -> Void = {}
    ) throws(StorageError) {
        try storage.withStagedPart(upload, 1, size: Int64(Self.size), Self.same) { part throws(StorageError) in
            let content = [UInt8](repeating: byte, count: Self.size)
            var failure: StorageError?
            content.withUnsafeBytes { bytes in
                do throws(StorageError) { try part.content.write(bytes) } catch { failure = error }
            }
            if let failure { throw failure }
            try meanwhile()
            let record = ObjectRecord(entityTag: "\(byte)", modified: Timestamp.now(), stamp: nil)
            try storage.commitPart(part, record, of: upload)
        }
    }

    private func complete(whenChosen: () -> Void = {}) throws(StorageError) {
        _ = try storage.completeUpload(upload.id, at: path, WriteConditions(), Self.same) {
            (_, parts) throws(StorageError) in
            whenChosen()
            return (parts, ObjectRecord(entityTag: parts[0].record.entityTag, modified: Timestamp.now(), stamp: nil))
        }
    }

    private static func same(_ error: StorageError) -> StorageError { error }

    /// The tag of the object, and the byte that its content is filled with.
    private func object() throws -> (tag: String, byte: UInt8) {
        let object = try storage.object(at: path)
        #expect(object.size == Int64(Self.size))
        let bytes = object.file?.descriptor.prefix(Self.size) ?? []
        #expect(bytes.count == Self.size && bytes[Self.size / 2] == bytes[0] && bytes.last == bytes[0])
        return (object.record.entityTag, bytes.first ?? 0)
    }

    @Test(arguments: [0, 1, 2])
    func ofTwoUploadsOfOnePartTheLastToEndStays(before: Int) throws {
        for number in 0..<before { try send(UInt8(10 + number)) }
        try send(1) { () throws(StorageError) in try send(2) }
        #expect(try storage.parts(of: upload).map(\.record.entityTag) == ["1"])
        try complete()
        #expect(try object() == ("1", 1))
    }

    @Test func aPartSentDuringTheCompletionDoesNotGetIntoIt() throws {
        try send(1)
        try send(2)
        var late: ThreadBox?
        let ended = Monitor(false)
        let (storage, upload) = (storage, upload)
        try complete {
            late = try? ThreadBox {
                try? Self.send(3, storage, upload)
                ended.update { $0 = true }
            }
            // It is to come between the choice and the joining; when it waits, as it should, so does this, but not long.
            _ = ended.wait(timeout: 0.5) { $0 ? true : nil }
        }
        late?.join()
        #expect(try object() == ("2", 2))
    }
}
