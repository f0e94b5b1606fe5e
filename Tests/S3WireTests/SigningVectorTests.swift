// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Digests
import HTTPWire
import S3Wire
import Testing

/// The worked examples of the S3 API reference ("Signature Calculations for the Authorization Header",
/// "Using Query Parameters", "Transferring Payload in Multiple Chunks").
enum Published {
    static let credentials = SigningCredentials(
        accessKeyID: "AKIAIOSFODNN7EXAMPLE",
        secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    )
    static let time = Timestamp(seconds: 1_369_353_600)
    static let scope = SigningScope(time: time, region: "us-east-1")
    static let key = SigningKey(secret: credentials.secretAccessKey, scope: scope)
    static let host = "examplebucket.s3.amazonaws.com"

    /// The fields of a signed request.
    static func sign(
        _ method: String,
        _ path: String,
        query: URLQuery = URLQuery(),
        extra: [(String, String)] = [],
        payload: String = ""
    ) -> HTTPFields {
        var fields = HTTPFields([.init(name: "Host", value: host)] + extra.map { .init(name: $0.0, value: $0.1) })
        RequestSigner.sign(
            &fields,
            method: method,
            path: Array(path.utf8),
            query: query,
            payloadHash: Hexadecimal.encode(Digest.of(Array(payload.utf8), .sha256)),
            credentials: credentials,
            scope: scope,
            key: key
        )
        return fields
    }

    static func signature(_ fields: HTTPFields) -> String? {
        fields["Authorization"]?.split(separator: "=").last.map { String($0) }
    }
}

@Suite struct SigningVectorTests {
    @Test func getObjectWithARange() {
        let fields = Published.sign("GET", "/test.txt", extra: [("Range", "bytes=0-9")])
        #expect(
            fields["authorization"]
                == "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
                + "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
                + "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        )
    }

    @Test func putObjectWithAnOddName() {
        let fields = Published.sign(
            "PUT",
            "/test$file.text",
            extra: [("Date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")],
            payload: "Welcome to Amazon S3."
        )
        #expect(
            Published.signature(fields) == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        )
    }

    @Test func subresourceWithoutAValue() {
        let fields = Published.sign("GET", "/", query: URLQuery([.init("lifecycle")]))
        #expect(
            Published.signature(fields) == "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        )
    }

    @Test func listObjectsWithParametersInAnyOrder() {
        let fields = Published.sign("GET", "/", query: URLQuery([.init("prefix", "J"), .init("max-keys", "2")]))
        #expect(
            Published.signature(fields) == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        )
    }

    @Test func presignedURL() {
        let query = RequestSigner.presign(
            method: "GET",
            host: Published.host,
            path: Array("/test.txt".utf8),
            query: URLQuery(),
            expires: 86_400,
            credentials: Published.credentials,
            scope: Published.scope,
            key: Published.key
        )
        #expect(query["X-Amz-Signature"] == "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")
    }

    @Test func chunkedUpload() {
        let fields = HTTPFields([
            .init(name: "Host", value: "s3.amazonaws.com"),
            .init(name: "x-amz-date", value: Published.scope.timestamp),
            .init(name: "x-amz-storage-class", value: "REDUCED_REDUNDANCY"),
            .init(name: "x-amz-content-sha256", value: "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
            .init(name: "Content-Encoding", value: "aws-chunked"),
            .init(name: "x-amz-decoded-content-length", value: "66560"), .init(name: "Content-Length", value: "66824"),
        ])
        let request = CanonicalRequest(
            method: "PUT",
            path: Array("/examplebucket/chunkObject.txt".utf8),
            query: URLQuery(),
            fields: fields,
            signing: fields.fields.map { $0.name.lowercased() },
            payloadHash: "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
        )
        let seed = Published.key.signature(of: request.stringToSign(Published.scope))
        #expect(seed == "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9")
        var signer = ChunkSigner(key: Published.key, scope: Published.scope, seed: seed)
        let expected = [
            "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
            "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
        ]
        for (count, signature) in zip([65_536, 1024, 0], expected) {
            let data = [UInt8](repeating: 0x61, count: count)
            #expect(signer.next(chunkDigest: Hexadecimal.encode(Digest.of(data, .sha256))) == signature)
        }
    }

    @Test func theSecretStaysOutOfEveryTextForm() {
        let texts = [
            "\(Published.credentials)", String(reflecting: Published.credentials),
            Published.credentials.customMirror.children.map { "\($0.value)" }.joined(),
        ]
        for text in texts { #expect(!text.contains(Published.credentials.secretAccessKey)) }
    }
}
