// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import CurlTransport
import HTTPWire
import ObjectStore
import Platform
import Stores
import TestSupport
import Testing

/// A server that says of any object what nobody stored with it, and counts what it is asked.
private final class TalkativeServer {
    private struct State {
        var objects: Set<String> = []
        var looks = 0
        /// The status that looks at scratch objects get.
        var status = 200
    }

    private let state = Monitor(State())
    private let stub: StubServer
    let store: S3Store

    init(says fields: [String]) throws {
        let state = state
        stub = try StubServer { head, _ in
            state.update { state in
                switch head.method {
                case "PUT": state.objects.insert(head.path)
                case "DELETE": state.objects.remove(head.path)
                case "HEAD":
                    state.looks += 1
                    let time = "Expires: \(HTTPDate.format(Timestamp(seconds: Int64(state.looks))))"
                    guard state.status == 200 else { return CannedResponse(status: state.status).serialized }
                    return CannedResponse(status: 200, fields: fields + [time, "ETag: \"1\""]).serialized
                default:
                    let body =
                        "<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>"
                    return CannedResponse(status: 200, body: body).serialized
                }
                return CannedResponse(status: 200, fields: ["ETag: \"1\""]).serialized
            }
        }
        store = try S3Store(
            configuration: S3StoreConfiguration(endpoint: "http://\(stub.address)", bucket: "bucket"),
            credentials: StaticCredentials(accessKeyID: "AK", secretAccessKey: "secret"),
            transport: CurlTransport()
        )
    }

    deinit { stub.stop() }

    var looks: Int { state.inspect { $0.looks } }
    var objects: Set<String> { state.inspect { $0.objects } }
    func answer(_ status: Int) { state.update { $0.status = status } }
}

@Suite struct UnpromptedFieldsTests {
    private let found = ObjectMetadata(
        contentType: "text/html",
        representation: ["cache-control": "private, max-age=0", "expires": "0", "content-language": "en"],
        other: ["colour": "blue"]
    )

    @Test func whatIsSaidOfAnyObjectIsNotTakenForStored() throws {
        let server = try TalkativeServer(says: ["Cache-Control: private, max-age=0"])
        for _ in 0..<3 {
            let stored = try server.store.stored(found)
            #expect(stored.representation == ["content-language": "en"])
            #expect(stored.contentType == "text/html" && stored.other == found.other)
        }
        #expect(server.looks == 1)
        #expect(server.objects.isEmpty)
    }

    @Test func aValueOfItsOwnWasStored() throws {
        let server = try TalkativeServer(says: ["Cache-Control: no-cache"])
        #expect(try server.store.stored(found).representation["cache-control"] == "private, max-age=0")
    }

    @Test func whatHasNoFieldsAsksForNothing() throws {
        let server = try TalkativeServer(says: [])
        let plain = ObjectMetadata(contentType: "text/html", other: ["colour": "blue"])
        #expect(try server.store.stored(plain) == plain)
        #expect(server.looks == 0)
    }

    /// Where it cannot be found out everything counts as stored; a server in trouble is asked again.
    @Test func aRefusalIsFinalAndTroubleIsNot() throws {
        let server = try TalkativeServer(says: ["Cache-Control: private, max-age=0"])
        server.answer(403)
        #expect(try server.store.stored(found) == found)
        #expect(server.objects.isEmpty)
        let looks = server.looks
        #expect(try server.store.stored(found) == found)
        #expect(server.looks == looks)

        let other = try TalkativeServer(says: ["Cache-Control: private, max-age=0"])
        other.answer(503)
        #expect(throws: StoreError.self) { try other.store.stored(found) }
        #expect(other.objects.isEmpty)
        other.answer(200)
        #expect(try other.store.stored(found).representation == ["content-language": "en"])
    }

    /// With keys that are not the server's own an entity tag says nothing of the bytes.
    @Test(arguments: [nil, "AES256", "aws:kms", "aws:kms:dsse"] as [String?])
    func whatIsEncryptedIsKnown(_ algorithm: String?) throws {
        let server = try TalkativeServer(says: algorithm.map { ["x-amz-server-side-encryption: \($0)"] } ?? [])
        let found = try server.store.status(of: ObjectKey("a"), cancellation: nil)
        #expect(found.isEncrypted == (algorithm?.hasPrefix("aws:") ?? false))
    }
}
