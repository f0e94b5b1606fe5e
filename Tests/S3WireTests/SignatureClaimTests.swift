// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import HTTPWire
import S3Wire
import Testing

@Suite struct SignatureClaimTests {
    static let secret = Published.credentials.secretAccessKey
    static let path = Array("/a b/ü+c//d".utf8)
    static let query = URLQuery([.init("uploads"), .init("prefix", "x/y z"), .init("a", "2"), .init("a", "1")])

    static func signed() -> HTTPFields {
        Published.sign(
            "GET",
            "/a b/ü+c//d",
            query: query,
            extra: [("x-amz-meta-a", "1"), ("x-amz-meta-a-b", " 2  3 ")]
        )
    }

    static func verify(
        _ fields: HTTPFields,
        method: String = "GET",
        path: [UInt8] = path,
        query: URLQuery = query,
        secret: String = secret
    ) throws {
        let claim = try #require(try SignatureClaim.read(fields: fields, query: query))
        #expect(claim.accessKeyID == Published.credentials.accessKeyID)
        try claim.verify(
            secret: secret,
            method: method,
            path: path,
            query: query,
            fields: fields,
            payloadHash: fields["x-amz-content-sha256"] ?? ""
        )
    }

    @Test func whatWeSignVerifies() throws {
        try Self.verify(Self.signed())
        // The order of parameters on the wire is free.
        var turned = Self.query
        turned.items.reverse()
        try Self.verify(Self.signed(), query: turned)
    }

    @Test func anyChangeIsSeen() {
        #expect(throws: SignatureProblem.mismatch) { try Self.verify(Self.signed(), method: "PUT") }
        #expect(throws: SignatureProblem.mismatch) { try Self.verify(Self.signed(), path: Array("/a".utf8)) }
        #expect(throws: SignatureProblem.mismatch) { try Self.verify(Self.signed(), query: URLQuery()) }
        #expect(throws: SignatureProblem.mismatch) { try Self.verify(Self.signed(), secret: "other") }
        var fields = Self.signed()
        fields["x-amz-meta-a"] = "2"
        #expect(throws: SignatureProblem.mismatch) { try Self.verify(fields) }
    }

    @Test func unsignedAmazonHeadersAreRefused() {
        var fields = Self.signed()
        fields["X-Amz-Copy-Source"] = "/other/key"
        #expect(throws: SignatureProblem.unsignedHeader("x-amz-copy-source")) { try Self.verify(fields) }
    }

    @Test func presignedRequestsVerifyUntilTheyExpire() throws {
        let signed = RequestSigner.presign(
            method: "GET",
            host: "localhost:8080",
            path: Self.path,
            query: URLQuery([.init("response-content-type", "text/plain")]),
            expires: 60,
            credentials: Published.credentials,
            scope: Published.scope,
            key: Published.key
        )
        let query = try #require(URLQuery(wire: signed.canonical))
        let fields = HTTPFields([.init(name: "host", value: "localhost:8080")])
        let claim = try #require(try SignatureClaim.read(fields: fields, query: query))
        #expect(claim.isPresigned)
        func verify(_ path: [UInt8]) throws {
            try claim.verify(
                secret: Self.secret,
                method: "GET",
                path: path,
                query: query,
                fields: fields,
                payloadHash: CanonicalRequest.unsignedPayload
            )
        }
        try verify(Self.path)
        #expect(throws: SignatureProblem.mismatch) { try verify([0x2F]) }
        try claim.checkTime(now: Published.time.advanced(bySeconds: 60))
        #expect(throws: SignatureProblem.expired) { try claim.checkTime(now: Published.time.advanced(bySeconds: 61)) }
        #expect(throws: SignatureProblem.skewed) { try claim.checkTime(now: Published.time.advanced(bySeconds: -901)) }
    }

    @Test func theClockMayBeFifteenMinutesOff() throws {
        let claim = try #require(try SignatureClaim.read(fields: Self.signed(), query: Self.query))
        try claim.checkTime(now: Published.time.advanced(bySeconds: 900))
        try claim.checkTime(now: Published.time.advanced(bySeconds: -900))
        #expect(throws: SignatureProblem.skewed) { try claim.checkTime(now: Published.time.advanced(bySeconds: 901)) }
        #expect(throws: SignatureProblem.skewed) { try claim.checkTime(now: Published.time.advanced(bySeconds: -901)) }
    }

    @Test(arguments: [
        "Basic abc", "AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256 Credential=a/b,SignedHeaders=host,Signature=x",
        "AWS4-HMAC-SHA256 Credential=AK/20130525/us-east-1/s3/aws4_request,SignedHeaders=host,Signature=x",
        "AWS4-HMAC-SHA256 Credential=AK/20130524/us-east-1/s3/aws4_request,Signature=x",
    ])
    func malformedAuthorizationIsRefused(value: String) {
        var fields = Self.signed()
        fields["authorization"] = value
        #expect(throws: SignatureProblem.self) { try SignatureClaim.read(fields: fields, query: URLQuery()) }
    }

    @Test func unsignedRequestsHaveNoClaim() throws {
        #expect(try SignatureClaim.read(fields: HTTPFields(), query: Self.query) == nil)
    }

    @Test func payloadFormsAreRead() {
        func form(_ value: String) -> PayloadForm? {
            PayloadForm(HTTPFields([.init(name: "X-Amz-Content-Sha256", value: value)]))
        }
        #expect(form("UNSIGNED-PAYLOAD") == .unsigned)
        #expect(form(CanonicalRequest.emptyPayload) == .digest(CanonicalRequest.emptyPayload))
        #expect(form("STREAMING-UNSIGNED-PAYLOAD-TRAILER") == .streaming(isSigned: false, hasTrailer: true))
        #expect(form("STREAMING-AWS4-HMAC-SHA256-PAYLOAD") == .streaming(isSigned: true, hasTrailer: false))
        #expect(form("nonsense") == nil)
        #expect(PayloadForm(HTTPFields()) == nil)
    }
}
