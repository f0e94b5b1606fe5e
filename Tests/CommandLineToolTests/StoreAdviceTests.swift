// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Configuration
import ObjectStore
import Testing

@testable import CommandLineTool

/// What a person is told to do about a remote that refuses.
@Suite struct StoreAdviceTests {
    private func advised(_ error: StoreError, url: String? = nil) throws -> String {
        let values = OptionValues()
        let volume = try url.map { try VolumeDescription(url: $0, values: values) }
        let bucket = try VolumeDescription(bucket: "b", prefix: "", values: values, environment: [:])
        return error.advised(for: volume ?? bucket)
    }

    @Test(arguments: [
        (
            "InvalidAccessKeyId",
            "; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile in ~/.aws/credentials"
        ),
        ("RequestTimeTooSkewed", "; check this machine's clock, and the server's"),
        ("ExpiredToken", "; renew the session's credentials"),
        ("AuthorizationHeaderMalformed", "; check region= and AWS_ACCESS_KEY_ID"),
        ("UnsupportedAlgorithm", ""),
    ]) func refusedCredentialsAreToldWhatIsWrongWithThem(code: String, advice: String) throws {
        #expect(try advised(StoreError(.authentication, "no", status: 403, code: code)) == "no" + advice)
    }

    @Test func whatSaysItselfWhatToDoIsLeftAlone() throws {
        #expect(try advised(StoreError(.authentication, "set KEY")) == "set KEY")
        #expect(try advised(StoreError(.authentication, "the proxy", status: 407)) == "the proxy")
        let refused = StoreError(.authentication, "no", status: 401)
        #expect(try advised(refused, url: "http://host/") == "no", "a web server knows no access keys")
    }

    @Test func aBucketIsMadeOrNamed() throws {
        #expect(try advised(StoreError(.noSuchBucket, "none")) == "none; create the bucket, or name another one")
        #expect(try advised(StoreError(.redirected, "else")) == "else; set region= to the bucket's region")
    }
}
