// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Digests
import ObjectStore
import Stores
import TestSupport
import Testing

/// What is asked before a copy or a deletion, at servers that check what these are conditional on and at others.
@Suite struct S3LooksTests {
    /// The methods of the requests since the plan was zeroed, without those about scratch objects.
    private static func methods(_ fixture: StoreFixture) -> [String] {
        fixture.proxy.plan.records.filter { !$0.path.contains(".moorage-probe") }.map(\.method)
    }

    private static func copy(
        _ fixture: StoreFixture,
        _ source: String,
        _ version: ObjectVersion,
        to target: String,
        _ condition: WriteCondition = .absent
    ) throws -> ObjectVersion {
        try fixture.store.copy(
            ObjectKey(source),
            sourceVersion: version,
            to: ObjectKey(target),
            metadata: ObjectMetadata(uid: 7),
            condition: condition
        )
    }

    @Test func aCopyIsOneRequestWhereTheServerChecks() throws {
        let fixture = try StoreFixture()
        let source = try fixture.put("s", pattern(1000), condition: .absent)
        _ = try Self.copy(fixture, "s", source, to: "a")
        #expect(fixture.store.capabilities.conditionalCopies == true)
        fixture.proxy.plan.zero()
        let copy = try Self.copy(fixture, "s", source, to: "b")
        let renewed = try Self.copy(fixture, "b", copy, to: "b", .version(copy))
        #expect(Self.methods(fixture) == ["PUT", "PUT"])
        // Another machine's change of the metadata is known by its time.
        #expect(try renewed == fixture.store.status(of: ObjectKey("b"), cancellation: nil).version)
        #expect(try fixture.read("b", renewed, ByteRange(0, 1000)) == pattern(1000))
        #expect(cause { _ = try Self.copy(fixture, "s", source, to: "b") } == .preconditionFailed)
        let later = try fixture.put("s", pattern(2000))
        #expect(cause { _ = try Self.copy(fixture, "s", source, to: "c") } == .preconditionFailed)
        #expect(cause { _ = try Self.copy(fixture, "gone", source, to: "c") } == .notFound)
        #expect(try fixture.store.status(of: ObjectKey("b"), cancellation: nil).version.size == 1000)
        // Which of two versions a refusal is about would not be known: both are looked at.
        fixture.proxy.plan.zero()
        #expect(cause { _ = try Self.copy(fixture, "s", source, to: "b", .version(copy)) } == .preconditionFailed)
        #expect(Self.methods(fixture) == ["HEAD"])
        fixture.proxy.plan.zero()
        #expect(cause { _ = try Self.copy(fixture, "s", later, to: "b", .version(source)) } == nil)
        #expect(Self.methods(fixture).first == "HEAD")
    }

    /// Both objects are looked at where the server takes no notice of one of the conditions.
    @Test(arguments: ["x-amz-copy-source-if-match", "if-none-match"])
    func aServerThatIgnoresAConditionIsAskedBeforeEachCopy(field: String) throws {
        let fixture = try StoreFixture()
        let source = try fixture.put("s", pattern(1000))
        let made = "<CopyObjectResult><ETag>\"1\"</ETag></CopyObjectResult>"
        let pattern = RequestPattern(method: "PUT", path: ".moorage-probe", field: field)
        fixture.proxy.plan.add(FaultRule(.respond(CannedResponse(status: 200, body: made)), for: pattern))
        _ = try Self.copy(fixture, "s", source, to: "a")
        #expect(fixture.store.capabilities.conditionalCopies == false)
        fixture.proxy.plan.zero()
        _ = try Self.copy(fixture, "s", source, to: "b")
        #expect(Self.methods(fixture) == ["HEAD", "HEAD", "PUT"])
        let left = try fixture.store.list(.root, recursive: true, continuation: nil)
        #expect(left.entries.map(\.key) == ["a", "b", "s"].map { ObjectKey($0) })
    }

    @Test func aDeletionIsOneRequestWhereTheServerChecks() throws {
        let fixture = try StoreFixture()
        let version = try fixture.put("k", pattern(10))
        for number in 0..<9 {
            try fixture.store.delete(ObjectKey("\(number)"), condition: .version(fixture.put("\(number)", [1])))
        }
        #expect(fixture.store.capabilities.conditionalDeletions == true)
        fixture.proxy.plan.zero()
        try fixture.store.delete(ObjectKey("k"), condition: .version(version))
        #expect(Self.methods(fixture) == ["DELETE"])
        let later = try fixture.put("k", pattern(20))
        #expect(cause { try fixture.store.delete(ObjectKey("k"), condition: .version(version)) } == .preconditionFailed)
        #expect(try fixture.read("k", later, ByteRange(0, 20)) == pattern(20))
        let gone = cause { try fixture.store.delete(ObjectKey("gone"), condition: .version(version)) }
        #expect(gone == .notFound || gone == .preconditionFailed)
        let left = try fixture.store.list(.root, recursive: true, continuation: nil)
        #expect(left.entries.map(\.key) == [ObjectKey("k")])
    }

    /// 204: it did not look; 501, 500: it does not know such a condition; 403, 400: who may delete may not write, or not such objects.
    @Test(arguments: [("DELETE", 204), ("DELETE", 501), ("DELETE", 500), ("PUT", 403), ("PUT", 400)])
    func aServerThatDeletesAnyVersionIsAskedBeforeEachDeletion(method: String, status: Int) throws {
        let fixture = try StoreFixture()
        let versions = try (0..<11).map { try fixture.put("\($0)", [1], condition: .absent) }
        let probe = RequestPattern(method: method, path: ".moorage-probe")
        fixture.proxy.plan.add(FaultRule(.respond(CannedResponse(status: status)), for: probe))
        for number in 0..<10 { try fixture.store.delete(ObjectKey("\(number)"), condition: .version(versions[number])) }
        #expect(fixture.store.capabilities.conditionalDeletions == false)
        fixture.proxy.plan.zero()
        try fixture.store.delete(ObjectKey("10"), condition: .version(versions[10]))
        #expect(Self.methods(fixture) == ["HEAD", "DELETE"])
        #expect(try fixture.store.list(.root, recursive: true, continuation: nil).entries.isEmpty)
    }

    /// A server that does not know conditions on one kind of request is sent them with all others, as before.
    @Test func aRefusalOfConditionalCopiesLeavesOtherConditionsAlone() throws {
        let fixture = try StoreFixture()
        let source = try fixture.put("s", pattern(1000), condition: .absent)
        _ = try Self.copy(fixture, "s", source, to: "a")
        Self.refuseOnce(fixture, .init(method: "PUT", path: "refused", field: "x-amz-copy-source"))
        _ = try Self.copy(fixture, "s", source, to: "refused")
        #expect(fixture.store.capabilities.conditionalCopies == false)
        // From now on both objects are looked at, and the request carries no condition on the target.
        fixture.proxy.plan.zero()
        _ = try Self.copy(fixture, "s", source, to: "c")
        #expect(Self.methods(fixture) == ["HEAD", "HEAD", "PUT"])
        #expect(cause { _ = try Self.copy(fixture, "s", source, to: "c") } == .preconditionFailed)
        Self.expectConditionalWrites(fixture)
    }

    @Test func aRefusalOfConditionalDeletionsLeavesOtherConditionsAlone() throws {
        let fixture = try StoreFixture()
        let versions = try (0..<10).map { try fixture.put("\($0)", [1], condition: .absent) }
        for number in 0..<9 { try fixture.store.delete(ObjectKey("\(number)"), condition: .version(versions[number])) }
        #expect(fixture.store.capabilities.conditionalDeletions == true)
        Self.refuseOnce(fixture, .init(method: "DELETE", path: "/9"))
        try fixture.store.delete(ObjectKey("9"), condition: .version(versions[9]))
        #expect(fixture.store.capabilities.conditionalDeletions == false)
        let last = try fixture.put("last", [1])
        fixture.proxy.plan.zero()
        try fixture.store.delete(ObjectKey("last"), condition: .version(last))
        #expect(Self.methods(fixture) == ["HEAD", "DELETE"])
        Self.expectConditionalWrites(fixture)
    }

    @Test func aRefusalOfConditionalCompletionsIsALackOfConditionalWrites() throws {
        let fixture = try StoreFixture()
        _ = try fixture.put("s", [1], condition: .absent)
        #expect(fixture.store.capabilities.conditionalWrites == true)
        let key = ObjectKey("big")
        let upload = try fixture.store.createMultipartUpload(key, metadata: ObjectMetadata())
        let tag = try fixture.store.uploadPart(
            key,
            uploadID: upload,
            number: 1,
            body: fixture.body(pattern(1000)),
            md5: Digest.of(pattern(1000), .md5),
            progress: nil,
            cancellation: nil
        )
        let part = UploadedPart(number: 1, size: 1000, entityTag: tag)
        Self.refuseOnce(fixture, .init(method: "POST", query: "uploadId"))
        _ = try fixture.store.completeMultipartUpload(key, uploadID: upload, parts: [part], condition: .absent)
        #expect(fixture.store.capabilities.conditionalWrites == false)
        // Small files are protected all the same.
        fixture.proxy.plan.zero()
        #expect(cause { _ = try fixture.put("big", [1], condition: .absent) } == .preconditionFailed)
        #expect(Self.methods(fixture) == ["PUT"])
    }

    private static func refuseOnce(_ fixture: StoreFixture, _ pattern: RequestPattern) {
        let answer = CannedResponse(status: 501, body: "<Error><Code>NotImplemented</Code></Error>")
        fixture.proxy.plan.add(FaultRule(.respond(answer), for: pattern))
    }

    /// Writes are sent under their conditions, which the server checks: nothing is asked before.
    private static func expectConditionalWrites(_ fixture: StoreFixture) {
        #expect(fixture.store.capabilities.conditionalWrites == true)
        fixture.proxy.plan.zero()
        #expect(cause { _ = try fixture.put("new", [1], condition: .absent) } == nil)
        #expect(cause { _ = try fixture.put("new", [2], condition: .absent) } == .preconditionFailed)
        #expect(methods(fixture) == ["PUT", "PUT"])
    }
}
