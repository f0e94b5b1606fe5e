// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import CurlTransport
import HTTPWire
import ObjectStore
import Platform
import S3Wire
import TestSupport
import Testing

@testable import Stores

@Suite(.serialized) struct CredentialsTests {
    /// A credentials document that ends in so many seconds.
    static func document(_ id: String, endsIn seconds: Double = 3600) -> String {
        let end = Timestamp.now().advanced(bySeconds: seconds).rfc3339
        return #"{"Code":"Success","Size":1,"AccessKeyId":"\#(id)","SecretAccessKey":"s\/\u0041","Token":"t","#
            + #""Expiration":"\#(end)"}"#
    }

    static func ok(_ body: String) -> [UInt8] { CannedResponse(status: 200, body: body).serialized }

    @Test func instancesAreAskedWithAToken() throws {
        let stub = try StubServer { head, _ in
            if head.method == "PUT", head.path == "/latest/api/token",
                head.value(of: "x-aws-ec2-metadata-token-ttl-seconds") != nil
            {
                return Self.ok("the-token")
            }
            guard head.value(of: "x-aws-ec2-metadata-token") == "the-token" else {
                return CannedResponse(status: 401).serialized
            }
            switch head.path {
            case "/latest/meta-data/iam/security-credentials/": return Self.ok("my role\n")
            case "/latest/meta-data/iam/security-credentials/my%20role": return Self.ok(Self.document("INSTANCE"))
            default: return CannedResponse(status: 404).serialized
            }
        }
        defer { stub.stop() }
        let environment = [
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://\(stub.address)/", "HOME": "/nonexistent",
        ]
        let transport = try CurlTransport()
        func credentials(_ environment: [String: String], allowed: Bool) throws -> SigningCredentials? {
            let machine = MetadataCredentials(
                environment: environment,
                transport: transport,
                allowsInstance: allowed
            )
            return try SharedCredentials(profile: nil, environment: environment, machine: machine).credentials()
        }
        let found = try credentials(environment, allowed: true)
        #expect(found?.accessKeyID == "INSTANCE" && found?.secretAccessKey == "s/A" && found?.sessionToken == "t")
        #expect(cause { _ = try credentials(environment, allowed: false) } == .authentication)
        var disabled = environment
        disabled["AWS_EC2_METADATA_DISABLED"] = "true"
        #expect(cause { _ = try credentials(disabled, allowed: true) } == .authentication)
        var own = environment
        own["AWS_ACCESS_KEY_ID"] = "OWN"
        own["AWS_SECRET_ACCESS_KEY"] = "s"
        #expect(try credentials(own, allowed: true)?.accessKeyID == "OWN")
    }

    @Test func containersGiveCredentialsThatAreRenewed() throws {
        let count = Monitor(0)
        let stub = try StubServer { head, _ in
            guard head.value(of: "authorization") == "secret token" else {
                return CannedResponse(status: 403).serialized
            }
            let number = count.update { count in
                count += 1
                return count
            }
            return Self.ok(Self.document("KEY\(number)", endsIn: number == 1 ? 100 : 3600))
        }
        defer { stub.stop() }
        let environment = [
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://\(stub.address)/creds",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "secret token",
        ]
        let machine = MetadataCredentials(
            environment: environment,
            transport: try CurlTransport(),
            allowsInstance: false
        )
        #expect(machine.credentials()?.accessKeyID == "KEY1")
        // About to end, but asked a moment ago.
        #expect(machine.credentials()?.accessKeyID == "KEY1")
        #expect(machine.renew()?.accessKeyID == "KEY2")
        #expect(machine.credentials()?.accessKeyID == "KEY2")
        #expect(count.inspect { $0 } == 2)
    }

    @Test func credentialsAreAskedOfNobodyElse() throws {
        let transport = try CurlTransport()
        for url in ["http://example.com/", "http://127.0.0.1.example.com/", "http://10.0.0.1/", "ftp://127.0.0.1/"] {
            let machine = MetadataCredentials(
                environment: ["AWS_CONTAINER_CREDENTIALS_FULL_URI": url],
                transport: transport,
                allowsInstance: false
            )
            #expect(machine.credentials() == nil)
        }
    }

    @Test(arguments: [
        "", "{", "[]", "{\"a\"}", "{\"a\":{}}", "{\"a\":[1]}", "{\"a\":\"b}", "{\"a\":\"\\x\"}", "{\"a\":1,}",
        "{\"a\":\"\\uD800\"}", "{} x",
    ])
    func otherDocumentsAreRefused(text: String) {
        #expect(FlatJSON.strings(Array(text.utf8)) == nil)
    }

    @Test func plainMembersAreRead() {
        let text = " {\"a\" : \"b\\n\\u00e9\" , \"n\":-1.5e3,\"t\":true, \"z\":null}\n"
        #expect(FlatJSON.strings(Array(text.utf8)) == ["a": "b\né"])
        #expect(FlatJSON.strings(Array("{}".utf8)) == [:])
    }

    @Test func aReadRenewsExpiredCredentials() throws {
        let fixture = try StoreFixture()
        let version = try fixture.put("k", pattern(100))
        let expired = CannedResponse(status: 400, body: "<Error><Code>ExpiredToken</Code></Error>")
        fixture.proxy.plan.add(FaultRule(.respond(expired), for: .init(method: "GET"), times: nil))
        #expect(cause { _ = try fixture.read("k", version, ByteRange(0, 100)) } == .authentication)
        let path = fixture.directory + "/credentials"
        func write(_ secret: String) throws {
            let text = "[p]\naws_access_key_id = AKIATESTTESTTESTTEST\naws_secret_access_key = \(secret)\n"
            try Files.writeAtomically(path, Array(text.utf8))
        }
        try write("outdated")
        let provider = SharedCredentials(profile: "p", environment: ["AWS_SHARED_CREDENTIALS_FILE": path])
        #expect(try provider.credentials()?.secretAccessKey == "outdated")
        try write("secretsecretsecretsecretsecretsecret0000")
        fixture.proxy.plan.clear()
        let store = try S3Store(
            configuration: fixture.store.client.configuration,
            credentials: provider,
            transport: fixture.transport
        )
        let sink = CollectingSink(0)
        let fetch = store.fetch(ObjectKey("k"), version: version, range: ByteRange(0, 100), into: sink)
        #expect(try sink.wait() == pattern(100))
        withExtendedLifetime(fetch) {}
    }
}
