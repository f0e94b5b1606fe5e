// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import CurlTransport
import Digests
import Glibc
import HTTPWire
import ObjectStore
import Platform
import S3Wire
import Stores
import TestSupport
import Testing

/// What a store does when the network or the server misbehaves.
@Suite(.serialized, .enabled(if: StoreFixture.external == nil)) struct S3StoreFaultTests {
    static let slowDown = CannedResponse(
        status: 503,
        fields: ["Retry-After: 0"],
        body: "<Error><Code>SlowDown</Code><Message>slow</Message></Error>"
    )

    /// How many requests of a method for the key `k` the proxy saw; it may note one just after its answer came.
    static func count(_ fixture: StoreFixture, _ method: String) -> Int {
        fixture.proxy.plan.records.count { $0.method == method && $0.path.hasSuffix("/k") }
    }

    @Test func aBrokenReadGoesOnWhereItWas() throws {
        let fixture = try StoreFixture()
        let data = pattern(4 << 20)
        let version = try fixture.put("k", data)
        fixture.proxy.plan.zero()
        let get = RequestPattern(method: "GET")
        for cut in [Int64(100_000), 1_000_000, 1] {
            fixture.proxy.plan.add(FaultRule(.cutResponse(after: cut, .reset), for: get))
        }
        #expect(try fixture.read("k", version, ByteRange(10, 4 << 20)) == Array(data[10...]))
        #expect(Self.count(fixture, "GET") == 4)
    }

    @Test func aReadDoesNotGoOnForEver() throws {
        let fixture = try StoreFixture()
        let version = try fixture.put("k", pattern(100_000))
        fixture.proxy.plan.add(FaultRule(.cutResponse(after: 0, .reset), for: .init(method: "GET"), times: nil))
        #expect(cause { _ = try fixture.read("k", version, ByteRange(0, 1000)) } == .temporary)
        #expect(Self.count(fixture, "GET") <= 4)
    }

    @Test func aChangeOfVersionInTheMiddleIsSeen() throws {
        let fixture = try StoreFixture()
        let version = try fixture.put("k", pattern(100_000))
        fixture.proxy.plan.add(FaultRule(.cutResponse(after: 50_000, .reset), for: .init(method: "GET")))
        fixture.proxy.plan.add(FaultRule(.setField("ETag", "\"other\""), for: .init(method: "GET"), skip: 0))
        #expect(cause { _ = try fixture.read("k", version, ByteRange(0, 100_000)) } == .preconditionFailed)
    }

    /// The requests of a kind; the proxy notes one when it has handed the answer on, a moment after the client has it.
    private func records(
        _ fixture: StoreFixture,
        atLeast count: Int,
        _ isWanted: (RequestRecord) -> Bool
    ) -> [RequestRecord] {
        for _ in 0..<1000 where fixture.proxy.plan.records.count(where: isWanted) < count { usleep(10_000) }
        return fixture.proxy.plan.records.filter(isWanted)
    }

    @Test func aShortAnswerThatLooksWholeIsRefused() throws {
        let fixture = try StoreFixture()
        let version = try fixture.put("k", pattern(100_000))
        fixture.proxy.plan.add(FaultRule(.truncateResponse(after: 500), for: .init(method: "GET"), times: nil))
        #expect(cause { _ = try fixture.read("k", version, ByteRange(0, 1000)) } == .protocolViolation)
    }

    /// Some servers refuse parameters that they do not know, and what metadata holds may break a listing's form.
    @Test(arguments: [
        CannedResponse(status: 501, body: "<Error><Code>NotImplemented</Code></Error>"),
        CannedResponse(status: 400, body: "<Error><Code>InvalidArgument</Code></Error>"),
        CannedResponse(status: 200, body: "<ListBucketResult><Contents><UserMetadata><a!>"),
    ])
    func aServerThatRefusesMetadataIsAskedOnce(answer: CannedResponse) throws {
        let fixture = try StoreFixture()
        try fixture.put("k", [1], metadata: ObjectMetadata(mode: 0o100_600))
        fixture.proxy.plan.zero()
        fixture.proxy.plan.add(FaultRule(.respond(answer), for: .init(query: "metadata=true"), times: nil))
        for _ in 0..<3 {
            let page = try fixture.store.list(.root, recursive: false, continuation: nil)
            #expect(page.entries.map(\.key) == [ObjectKey("k")])
            #expect(page.entries.map(\.metadata) == [nil])
        }
        let listings = records(fixture, atLeast: 4) { $0.method == "GET" }
        #expect(listings.count == 4)
        let isSecondVersion = listings.allSatisfy { $0.query.contains("list-type=2") }
        #expect(isSecondVersion)
    }

    @Test func aMissingBucketIsNoReasonToAskWithoutMetadata() throws {
        let fixture = try StoreFixture { $0.bucket = "nosuchbucket" }
        #expect(cause { _ = try fixture.store.list(.root, recursive: false, continuation: nil) } == .noSuchBucket)
        #expect(records(fixture, atLeast: 1) { _ in true }.count == 1)
    }

    @Test func aListingThatLeadsNowhereIsGivenUp() throws {
        func page(_ keys: [String], _ next: String?) -> ListingPage {
            let version = ObjectVersion(entityTag: nil, size: 0)
            return ListingPage(
                entries: keys.map { .init(key: ObjectKey($0), version: version) },
                folders: [],
                next: next
            )
        }
        func verdicts(_ pages: [ListingPage]) -> [Bool] {
            var progress = ListingProgress()
            return pages.map { progress.leadsOn($0) }
        }
        let honest = [page(["a"], "1"), page([], "2"), page(["b"], "3"), page(["b"], nil)]
        #expect(verdicts(honest) == [true, true, true, true])
        #expect(verdicts([page(["a"], "1"), page(["a"], "2")]) == [true, false])
        #expect(verdicts([page(["a"], "1"), page(["b"], "1")]) == [true, false])
        let empty = verdicts((0...ListingProgress.emptyLimit).map { page([], "\($0)") })
        #expect(empty.firstIndex(of: false) == ListingProgress.emptyLimit)
    }

    /// Answers of which one says a shorter range than it sends, and one comes byte by byte.
    @Test func anAnswerThatContradictsItselfOrTricklesIsRefused() throws {
        let data = pattern(40_000)
        let tag = "\"0123456789abcdef0123456789abcdef\""
        let stub = try StubServer { head, _ in
            let first = head.value(of: "range").flatMap { RangeField($0)?.specifications.first }
            guard case .interval(let start, let last)? = first else { return [] }
            let isLong = head.startLine.contains("/long")
            let end = isLong ? start + 9999 : start
            let content = data[Int(start)...Int(isLong ? last : end)]
            let fields = "ETag: \(tag)\r\nContent-Range: bytes \(start)-\(end)/40000\r\nTransfer-Encoding: chunked"
            let size = String(content.count, radix: 16)
            return Array("HTTP/1.1 206 Partial Content\r\n\(fields)\r\n\r\n\(size)\r\n".utf8) + content
                + Array("\r\n0\r\n\r\n".utf8)
        }
        defer { stub.stop() }
        let store = try S3Store(
            configuration: S3StoreConfiguration(endpoint: "http://\(stub.address)", bucket: "bucket"),
            credentials: StaticCredentials(accessKeyID: "AK", secretAccessKey: "secret"),
            transport: CurlTransport()
        )
        let version = ObjectVersion(entityTag: EntityTag(fieldValue: tag), size: 40_000)
        let range = ByteRange(0, 40_000)
        func read(_ key: String) throws {
            let sink = CollectingSink(0)
            let fetch = store.fetch(ObjectKey(key), version: version, range: range, into: sink)
            _ = try withExtendedLifetime(fetch) { try sink.wait() }
        }
        #expect(cause { try read("long") } == .protocolViolation)
        #expect(cause { try read("short") } == .temporary)
    }

    @Test func aListingThatIsNotFoundIsNoEmptyFolder() throws {
        let fixture = try StoreFixture()
        fixture.proxy.plan.add(FaultRule(.respond(CannedResponse(status: 404)), for: .init(method: "GET"), times: nil))
        let listing = cause { _ = try fixture.store.list(ObjectKey("d"), recursive: false, continuation: nil) }
        #expect(listing == .noSuchBucket)
    }

    @Test func readsCanBeCancelled() throws {
        let fixture = try StoreFixture()
        let version = try fixture.put("k", pattern(100_000))
        fixture.proxy.plan.add(FaultRule(.stall(.response, after: 500), for: .init(method: "GET"), times: nil))
        let sink = CollectingSink(0)
        let fetch = fixture.store.fetch(ObjectKey("k"), version: version, range: ByteRange(0, 100_000), into: sink)
        fixture.transport.schedule(after: 0.2) { fetch.cancel() }
        #expect(cause { _ = try sink.wait() } == .cancelled)
    }

    @Test func aBusyServerIsAskedAgain() throws {
        let fixture = try StoreFixture()
        fixture.proxy.plan.add(FaultRule(.respond(Self.slowDown), for: .init(method: "PUT"), times: 2))
        let version = try fixture.put("k", pattern(1000))
        #expect(try fixture.read("k", version, ByteRange(0, 1000)) == pattern(1000))
        fixture.proxy.plan.add(FaultRule(.respond(CannedResponse(status: 500)), for: .init(method: "HEAD"), times: 1))
        #expect(try fixture.store.status(of: ObjectKey("k"), cancellation: nil).version.size == 1000)
    }

    /// Of a repeated request the first may be carried out long after: who sends it decides.
    @Test func aLostAnswerToAnUnconditionalWriteIsToldNotRepeated() throws {
        let fixture = try StoreFixture()
        fixture.proxy.plan.add(FaultRule(.dropResponse(.reset), for: .init(method: "PUT")))
        #expect(cause { try fixture.put("k", pattern(1000)) } == .temporary)
        #expect(Self.count(fixture, "PUT") == 1)
        fixture.proxy.plan.add(FaultRule(.dropResponse(.reset), for: .init(method: "DELETE")))
        #expect(cause { try fixture.store.delete(ObjectKey("k"), condition: .none) } == .temporary)
        #expect(Self.count(fixture, "DELETE") == 1)
    }

    @Test func aLostAnswerToAConditionalWriteIsToldNotRepeated() throws {
        let fixture = try StoreFixture()
        try fixture.put("other", [1], condition: .absent)
        fixture.proxy.plan.zero()
        fixture.proxy.plan.add(FaultRule(.dropResponse(.reset), for: .init(method: "PUT")))
        #expect(cause { try fixture.put("k", pattern(1000), condition: .absent) } == .temporary)
        #expect(Self.count(fixture, "PUT") == 1)
        #expect(try fixture.store.status(of: ObjectKey("k"), cancellation: nil).version.size == 1000)
        fixture.proxy.plan.add(FaultRule(.replaceResponse(CannedResponse(status: 500)), for: .init(method: "DELETE")))
        let version = try fixture.store.status(of: ObjectKey("k"), cancellation: nil).version
        #expect(cause { try fixture.store.delete(ObjectKey("k"), condition: .version(version)) } == .temporary)
        #expect(Self.count(fixture, "DELETE") == 1)
    }

    @Test func anErrorWithinA200IsAnError() throws {
        let fixture = try StoreFixture()
        let key = ObjectKey("k")
        let source = try fixture.put("s", [1, 2, 3])
        let upload = try fixture.store.createMultipartUpload(key, metadata: ObjectMetadata())
        let tag = try fixture.store.uploadPart(
            key,
            uploadID: upload,
            number: 1,
            body: fixture.body([1]),
            md5: Digest.of([1], .md5),
            progress: nil,
            cancellation: nil
        )
        let parts = [UploadedPart(number: 1, size: 1, entityTag: tag)]
        func complete(_ body: String) -> StoreError.Cause? {
            let answer = CannedResponse(status: 200, body: body)
            fixture.proxy.plan.add(FaultRule(.respond(answer), for: .init(method: "POST")))
            return cause {
                _ = try fixture.store.completeMultipartUpload(key, uploadID: upload, parts: parts, condition: .none)
            }
        }
        #expect(complete("  \n <Error><Code>InternalError</Code><Message>m</Message></Error>") == .temporary)
        #expect(complete("") == .temporary)
        #expect(complete("<html></html>") == .protocolViolation)
        #expect(complete("<Error><Code>NoSuchUpload</Code></Error>") == .noSuchUpload)
        func copy() -> StoreError.Cause? {
            cause {
                _ = try fixture.store.copy(
                    ObjectKey("s"),
                    sourceVersion: source,
                    to: ObjectKey("t"),
                    metadata: nil,
                    condition: .none
                )
            }
        }
        #expect(copy() == nil)
        let failing = CannedResponse(status: 200, body: "<Error><Code>InternalError</Code></Error>")
        let copying = RequestPattern(method: "PUT", field: "x-amz-copy-source")
        fixture.proxy.plan.add(FaultRule(.respond(failing), for: copying))
        #expect(copy() == .temporary)
        fixture.proxy.plan.add(FaultRule(.respond(CannedResponse(status: 200)), for: copying))
        #expect(copy() == .unsupported)
    }

    @Test func aServerThatTakesCopiesForWritesIsFoundOutOnScratchObjects() throws {
        let fixture = try StoreFixture()
        let source = try fixture.put("s", [1, 2, 3])
        fixture.proxy.plan.add(
            FaultRule(.respond(CannedResponse(status: 200)), for: .init(method: "PUT", field: "x-amz-copy-source"))
        )
        let result = cause {
            _ = try fixture.store.copy(
                ObjectKey("s"),
                sourceVersion: source,
                to: ObjectKey("s"),
                metadata: ObjectMetadata(uid: 1),
                condition: .none
            )
        }
        #expect(result == .unsupported)
        #expect(fixture.store.capabilities.copy == false)
        #expect(try fixture.read("s", source, ByteRange(0, 3)) == [1, 2, 3])
        let left = try fixture.store.list(.root, recursive: true, continuation: nil)
        #expect(left.entries.map(\.key) == [ObjectKey("s")])
    }

    @Test func capabilitiesAreFoundOutOnceHoweverManyAsk() throws {
        let fixture = try StoreFixture()
        let left = Monitor(8)
        for index in 0..<8 {
            try Thread.detached(name: "asks") {
                #expect(throws: Never.self) {
                    try fixture.put("d\(index)/", [])
                    let source = try fixture.put("f\(index)", [1, 2], condition: .absent)
                    _ = try fixture.store.copy(
                        ObjectKey("f\(index)"),
                        sourceVersion: source,
                        to: ObjectKey("g\(index)"),
                        metadata: nil,
                        condition: .none
                    )
                }
                left.update { $0 -= 1 }
            }
        }
        #expect(left.wait(timeout: 30) { $0 == 0 ? true : nil } == true)
        let probes = fixture.proxy.plan.records.filter { $0.method == "PUT" && $0.path.contains(".moorage-probe") }
        #expect(probes.count == 6, "one for markers, one for conditions, four for copies")
        #expect(try fixture.store.list(.root, recursive: true, continuation: nil).entries.count == 24)
    }

    @Test func scratchObjectsOfAKilledProcessGoWithTheNextProbeAndThoseOfOthersStay() throws {
        let fixture = try StoreFixture { $0.scratchOwner = "me" }
        let source = try fixture.put("f", [1, 2])
        let left = ["-source", "-target", "-folder", ""].map { ".moorage-probe-me" + $0 }
        let others = [".moorage-probe-you-source", ".moorage-probe-me2", ".moorage-probe-source"]
        for name in left + others { try fixture.put(name, [0x78]) }
        func copy(to name: String) throws {
            _ = try fixture.store.copy(
                ObjectKey("f"),
                sourceVersion: source,
                to: ObjectKey(name),
                metadata: nil,
                condition: .none
            )
        }
        try copy(to: "g")
        for name in left {
            #expect(cause { _ = try fixture.store.status(of: ObjectKey(name), cancellation: nil) } == .notFound)
        }
        for name in others {
            #expect(try fixture.store.status(of: ObjectKey(name), cancellation: nil).version.size == 1)
        }
        let before = fixture.proxy.plan.records.count { $0.query.contains("prefix") }
        try copy(to: "h")
        #expect(fixture.proxy.plan.records.count { $0.query.contains("prefix") } == before, "once a process")
    }

    @Test func aStoreMadeAnewLeavesAloneWhatAnotherIsTrying() throws {
        let fixture = try StoreFixture { $0.scratchOwner = "me" }
        let source = try fixture.put("f", [1, 2])
        func copy(by store: S3Store, to name: String) throws {
            let (key, target) = (ObjectKey("f"), ObjectKey(name))
            _ = try store.copy(key, sourceVersion: source, to: target, metadata: nil, condition: .none)
        }
        try copy(by: fixture.store, to: "g")
        let tried = ObjectKey(".moorage-probe-me-folder")
        try fixture.put(tried.string, [0x78])
        try copy(by: try fixture.anotherStore(), to: "h")
        #expect(try fixture.store.status(of: tried, cancellation: nil).version.size == 1)
    }

    @Test func damageOnTheWayIsSeen() throws {
        let fixture = try StoreFixture()
        try fixture.put("first", [1])
        let answer = CannedResponse(status: 200, fields: ["ETag: \"00000000000000000000000000000000\""])
        fixture.proxy.plan.add(FaultRule(.replaceResponse(answer), for: .init(method: "PUT"), times: nil))
        #expect(cause { try fixture.put("k", pattern(10)) } == .corrupted)
    }

    @Test func noNetworkIsToldQuickly() throws {
        let fixture = try StoreFixture {
            $0.interactiveTimeout = 1
            $0.connectTimeout = 1
        }
        let version = try fixture.put("k", pattern(10))
        fixture.proxy.setMode(.refuse)
        fixture.proxy.cutAll()
        let causes = [
            cause { _ = try fixture.store.list(.root, recursive: false, continuation: nil) },
            cause { _ = try fixture.read("k", version, ByteRange(0, 10)) },
            cause { try fixture.put("k", pattern(10)) },
            cause { try fixture.store.check() },
        ]
        #expect(causes == Array(repeating: .unreachable, count: 4))
        fixture.proxy.setMode(.blackhole)
        #expect(cause { _ = try fixture.store.list(.root, recursive: false, continuation: nil) } == .unreachable)
        fixture.proxy.setMode(.pass)
        fixture.proxy.cutAll()
        #expect(try fixture.read("k", version, ByteRange(0, 10)) == pattern(10))
    }

    @Test func anUploadCanBeCancelled() throws {
        let fixture = try StoreFixture()
        fixture.proxy.plan.add(FaultRule(.stall(.request, after: 1000), for: .init(method: "PUT"), times: nil))
        let flag = CancellationFlag()
        fixture.transport.schedule(after: 0.2) { flag.cancel() }
        let body = try fixture.body(pattern(8 << 20))
        let result = cause {
            _ = try fixture.store.put(
                ObjectKey("k"),
                body: body,
                metadata: ObjectMetadata(),
                condition: .none,
                progress: nil,
                cancellation: flag
            )
        }
        #expect(result == .cancelled)
    }

    @Test func renewedCredentialsAreTaken() throws {
        let fixture = try StoreFixture()
        let path = fixture.directory + "/credentials"
        func write(_ secret: String) throws {
            let text = "[p]\naws_access_key_id = AKIATESTTESTTESTTEST\naws_secret_access_key = \(secret)\n"
            try Files.writeAtomically(path, Array(text.utf8))
        }
        try write("outdated")
        let provider = SharedCredentials(
            profile: "p",
            environment: ["AWS_SHARED_CREDENTIALS_FILE": path, "AWS_CONFIG_FILE": "/nonexistent"]
        )
        let store = try S3Store(
            configuration: S3StoreConfiguration(endpoint: fixture.endpoint, bucket: "bucket"),
            credentials: provider,
            transport: fixture.transport
        )
        #expect(cause { try store.check() } == .authentication)
        try write("secretsecretsecretsecretsecretsecret0000")
        #expect(cause { try store.check() } == nil)
    }

    @Test func theServersClockAndRegionAreLearned() throws {
        let later = Timestamp.now().advanced(bySeconds: 7200)
        let stub = try StubServer { head, _ in
            let authorization = head.value(of: "authorization") ?? ""
            let isLate =
                (head.value(of: "x-amz-date").flatMap { SigningScope.parse($0) } ?? later)
                > later.advanced(bySeconds: -60)
            if !isLate {
                let body = "<Error><Code>RequestTimeTooSkewed</Code></Error>"
                return CannedResponse(status: 403, fields: ["Date: \(HTTPDate.format(later))"], body: body).serialized
            }
            guard authorization.contains("/eu-north-1/") else {
                let body = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-north-1</Region></Error>"
                return CannedResponse(status: 400, fields: ["Date: \(HTTPDate.format(later))"], body: body).serialized
            }
            let body = "<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>"
            return CannedResponse(status: 200, body: body).serialized
        }
        defer { stub.stop() }
        let store = try S3Store(
            configuration: S3StoreConfiguration(endpoint: "http://\(stub.address)", bucket: "bucket"),
            credentials: StaticCredentials(accessKeyID: "AK", secretAccessKey: "secret"),
            transport: CurlTransport()
        )
        #expect(cause { try store.check() } == nil)
    }

    /// A server that lists two uploads a page, and one that repeats a page for ever.
    @Test(arguments: [false, true]) func longListsOfUploadsAreReadPageByPage(repeats: Bool) throws {
        let all = (1...5).map { "u\($0)" }
        let stub = try StubServer { head, _ in
            let fields = head.query.split(separator: "&")
            let marker = fields.first { $0.hasPrefix("upload-id-marker=") }?.split(separator: "=").last
            let rest = all.filter { repeats || $0 > marker.map(String.init) ?? "" }
            let page = rest.prefix(2).map { "<Upload><Key>k</Key><UploadId>\($0)</UploadId></Upload>" }
            let body = """
                <ListMultipartUploadsResult><IsTruncated>\(rest.count > 2)</IsTruncated>\(page.joined())\
                </ListMultipartUploadsResult>
                """
            return CannedResponse(status: 200, body: body).serialized
        }
        defer { stub.stop() }
        let store = try S3Store(
            configuration: S3StoreConfiguration(endpoint: "http://\(stub.address)", bucket: "bucket"),
            credentials: StaticCredentials(accessKeyID: "AK", secretAccessKey: "secret"),
            transport: CurlTransport()
        )
        if repeats {
            #expect(cause { _ = try store.listMultipartUploads(ObjectKey("k")) } == .protocolViolation)
        } else {
            #expect(try store.listMultipartUploads(ObjectKey("k")).map(\.uploadID).sorted() == all)
        }
    }

    @Test func uploadExchangesAreSignedForTheirOriginOnly() throws {
        let fixture = try StoreFixture()
        let seen = Monitor([MessageHead]())
        let other = try StubServer { head, _ in
            seen.update { $0.append(head) }
            return CannedResponse(status: 204).serialized
        }
        defer { other.stop() }
        let foreign = UploadExchange(
            method: "HEAD",
            target: .resource("http://\(other.address)/u"),
            fields: HTTPFields()
        )
        let answer = try fixture.store.exchange(foreign, informational: nil, progress: nil, cancellation: nil)
        #expect(answer.status == 204)
        #expect(seen.inspect { $0.first?.value(of: "authorization") } == nil)
        let put = UploadExchange(
            method: "PUT",
            target: .object(ObjectKey("a b")),
            fields: fixture.store.creationFields(metadata: ObjectMetadata(uid: 5), condition: .absent),
            body: try fixture.body(pattern(10))
        )
        let own = try fixture.store.exchange(put, informational: nil, progress: nil, cancellation: nil)
        #expect(own.status == 200)
        #expect(try fixture.store.status(of: ObjectKey("a b"), cancellation: nil).metadata.uid == 5)
        let resource = UploadExchange(method: "GET", target: .resource(own.url), fields: HTTPFields())
        let read = try fixture.store.exchange(resource, informational: nil, progress: nil, cancellation: nil)
        #expect(read.body == pattern(10))
    }
}
