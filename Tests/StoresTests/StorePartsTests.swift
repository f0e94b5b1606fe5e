// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import HTTPWire
import ObjectStore
import Platform
import S3Wire
import Testing

@testable import Stores

/// The pure parts of the store.
@Suite struct StorePartsTests {
    @Test(
        arguments: [
            ("33188", 0o100_644), ("16877", 0o040_755), ("41471", 0o120_777), ("0100644", 0o100_644),
            ("100644", 0o100_644), ("040755", 0o040_755), ("40755", 0o040_755), ("41777", 0o041_777),
            ("42755", 0o042_755), ("120777", 0o120_777), ("644", 0o644), ("0", 0), ("99999999", nil), ("-1", nil),
            ("rw", nil), ("", nil),
        ] as [(String, UInt32?)]
    )
    func modesAreReadAsBothToolsWriteThem(text: String, mode: UInt32?) {
        #expect(S3Metadata.mode(text) == mode)
    }

    @Test(
        arguments: [
            (0, "0"), (1_700_000_000_000_000_000, "1700000000"), (1_500_000_000, "1.5"), (1_000_000_001, "1.000000001"),
            (-1_500_000_000, "-1.5"), (-1, "-0.000000001"), (999_999_999, "0.999999999"),
        ] as [(Int64, String)]
    )
    func timesGoBothWays(nanoseconds: Int64, text: String) {
        #expect(S3Metadata.format(Timestamp(nanoseconds: nanoseconds)) == text)
        #expect(S3Metadata.time(text) == Timestamp(nanoseconds: nanoseconds))
    }

    @Test func otherTimesAreReadOrRefused() {
        #expect(S3Metadata.time("1700000000.123456789123") == Timestamp(nanoseconds: 1_700_000_000_123_456_789))
        for text in ["", "x", "1.", "1.2.3", "--1", "1e9"] { #expect(S3Metadata.time(text) == nil) }
    }

    @Test func metadataIgnoresWhatItCannotRead() {
        let fields = HTTPFields([
            .init(name: "X-Amz-Meta-Mode", value: "junk"), .init(name: "x-amz-meta-uid", value: "-5"),
            .init(name: "x-amz-meta-Foo", value: "bar"), .init(name: "Content-Type", value: "a/b"),
        ])
        let metadata = S3Metadata.read(fields)
        #expect(metadata == ObjectMetadata(contentType: "a/b", other: ["foo": "bar"]))
    }

    @Test(arguments: [
        ("http://h", true, "http://h/b/k%20y"), ("http://H:80/", true, "http://h/b/k%20y"),
        ("https://h:9000/s3/", true, "https://h:9000/s3/b/k%20y"), ("https://h", false, "https://b.h/k%20y"),
    ])
    func keysHaveURLs(endpoint: String, isPathStyle: Bool, url: String) throws {
        let configuration = S3StoreConfiguration(endpoint: endpoint, bucket: "b", isPathStyle: isPathStyle)
        let parts = try S3Endpoint(configuration)
        #expect(parts.url(path: parts.path(ObjectKey("k y")), query: .init()) == url)
    }

    @Test func amazonIsTheDefault() throws {
        let endpoint = try S3Endpoint(S3StoreConfiguration(endpoint: nil, region: "eu-west-1", bucket: "b"))
        #expect(endpoint.url(path: endpoint.path(nil), query: .init()) == "https://b.s3.eu-west-1.amazonaws.com/")
    }

    @Test(arguments: ["", "h", "ftp://h", "http://", "http://u:p@h", "http:///x"])
    func otherEndpointsAreRefused(text: String) {
        #expect(URLParts(text) == nil)
    }

    @Test func retriesFollowTheCause() {
        func delay(_ cause: StoreError.Cause, status: Int? = nil, attempt: Int = 1, repeatable: Bool = true) -> Double?
        {
            let policy = RetryPolicy(timeLimit: 60, isRepeatable: repeatable)
            let error = StoreError(cause, "", status: status)
            return policy.delay(after: error, attempt: attempt, elapsed: 0, random: 1)
        }
        #expect(delay(.temporary) == 0.05)
        #expect(delay(.temporary, attempt: 3) == 0.2)
        #expect(delay(.temporary, status: 503) == 1)
        #expect(delay(.temporary, attempt: 5) == nil)
        #expect(delay(.temporary, repeatable: false) == nil)
        #expect(delay(.temporary, status: 503, repeatable: false) == 1)
        #expect(delay(.temporary, status: 500, repeatable: false) == nil)
        #expect(delay(.unreachable) == 0.05)
        #expect(delay(.unreachable, attempt: 2) == nil)
        #expect(delay(.unreachable, repeatable: false) == nil)
        for cause in [StoreError.Cause.notFound, .preconditionFailed, .authentication, .forbidden, .cancelled] {
            #expect(delay(cause) == nil)
        }
    }

    @Test func retriesRespectTheServerAndTheClock() {
        let policy = RetryPolicy(timeLimit: 10, isRepeatable: true)
        let busy = StoreError(.temporary, "", status: 503, retryAfter: 5)
        #expect(policy.delay(after: busy, attempt: 1, elapsed: 0, random: 0) == 5)
        #expect(policy.delay(after: busy, attempt: 1, elapsed: 6, random: 0) == nil)
    }

    @Test func theBudgetRunsOutAndRefills() {
        let budget = RetryBudget()
        var count = 0
        while budget.take(isThrottled: false) { count += 1 }
        #expect(count == RetryBudget.capacity / 14)
        for _ in 0..<14 { budget.giveBack() }
        #expect(budget.take(isThrottled: false))
    }

    @Test func errorsHaveCauses() {
        func error(_ status: Int, _ code: String = "") -> StoreError.Cause {
            let body = code.isEmpty ? "" : "<Error><Code>\(code)</Code></Error>"
            return S3ErrorMapping.error(status: status, fields: HTTPFields(), body: Array(body.utf8)).cause
        }
        #expect(error(404) == .notFound)
        #expect(error(404, "NoSuchBucket") == .noSuchBucket)
        #expect(error(404, "NoSuchUpload") == .noSuchUpload)
        #expect(error(409, "ConditionalRequestConflict") == .preconditionFailed)
        #expect(error(409, "OperationAborted") == .temporary)
        #expect(error(400, "RequestTimeout") == .temporary)
        #expect(error(400, "BadDigest") == .corrupted)
        #expect(error(400, "KeyTooLongError") == .invalidKey)
        #expect(error(403) == .forbidden)
        #expect(error(403, "InvalidAccessKeyId") == .authentication)
        #expect(error(301) == .redirected)
        #expect(error(413) == .tooLarge)
        #expect(error(507) == .noSpace)
        #expect(error(500) == .temporary)
        #expect(error(501) == .unsupported)
        #expect(error(418) == .rejected)
    }

    /// A server that has no words but its code is not quoted twice.
    @Test(arguments: ["", "SlowDown", "Later"]) func aCodeIsSaidOnce(message: String) {
        let body = "<Error><Code>SlowDown</Code><Message>\(message)</Message></Error>"
        let error = S3ErrorMapping.error(status: 503, fields: HTTPFields(), body: Array(body.utf8))
        let said = message == "Later" ? "Later (SlowDown)" : "the server answered 503 (SlowDown)"
        #expect(error.message == said && error.code == "SlowDown")
    }

    @Test func profilesComeFromBothFiles() throws {
        let folder = "/tmp/moorage-profiles-\(Randomness.hexadecimal(bytes: 8))"
        try Files.makeDirectories(folder)
        let credentials = """
            # a comment
            [default]
            aws_access_key_id = D
            aws_secret_access_key = d # not part of it
            [work]
            aws_access_key_id=W
            aws_secret_access_key=w#1
            aws_session_token = t
            """
        let config = """
            [profile work]
            region = eu-west-1
            s3 =
              addressing_style = path
            endpoint_url = http://localhost:9000
            [default]
            region = us-west-2
            """
        try Files.writeAtomically(folder + "/credentials", Array(credentials.utf8))
        try Files.writeAtomically(folder + "/config", Array(config.utf8))
        var environment = [
            "AWS_SHARED_CREDENTIALS_FILE": folder + "/credentials", "AWS_CONFIG_FILE": folder + "/config",
        ]
        let main = try AWSProfile.load(nil, environment: environment)
        #expect(main.credentials?.accessKeyID == "D" && main.credentials?.secretAccessKey == "d")
        #expect(main.region == "us-west-2")
        let work = try AWSProfile.load("work", environment: environment)
        #expect(work.credentials?.secretAccessKey == "w#1" && work.credentials?.sessionToken == "t")
        #expect(work.region == "eu-west-1" && work.endpoint == "http://localhost:9000")
        #expect(try AWSProfile.load("none", environment: environment).credentials == nil)
        environment["AWS_ACCESS_KEY_ID"] = "E"
        environment["AWS_SECRET_ACCESS_KEY"] = "e"
        #expect(try SharedCredentials(profile: nil, environment: environment).credentials()?.accessKeyID == "E")
        #expect(try SharedCredentials(profile: "work", environment: environment).credentials()?.accessKeyID == "W")
        let none = SharedCredentials(profile: "none", environment: environment)
        #expect(cause { _ = try none.credentials() } == .authentication)
        for name in ["credentials", "config"] { try Files.removeIfPresent("\(folder)/\(name)") }
        try Files.removeDirectory(folder)
    }

    @Test func unsignedRequestsAreForThoseWhoHaveNoCredentials() throws {
        func provider(_ environment: [String: String]) -> SharedCredentials {
            SharedCredentials(
                profile: nil,
                environment: environment.merging(["HOME": "/nowhere"]) { $1 },
                allowsNone: true
            )
        }
        #expect(try provider([:]).credentials() == nil)
        let keys = ["AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "e"]
        #expect(try provider(keys).credentials()?.accessKeyID == "E")
    }
}
