// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import HTTPWire
import ObjectStore
import Testing

@testable import Stores

@Suite struct CaptivePortalTests {
    private func error(
        _ status: Int,
        _ fields: [(String, String)],
        host: String = "s3.example.test:9000"
    ) -> StoreError? {
        let fields = HTTPFields(fields.map { .init(name: $0.0, value: $0.1) })
        return CaptivePortal.error(status: status, fields: fields, host: host)
    }

    @Test func answersOfANetworkAreNotTheServers() throws {
        let login = [("Location", "http://login.hotel.test/?back=s3")]
        for status in [301, 302, 303, 307, 308] {
            let found = try #require(error(status, login))
            #expect(found.cause == .unreachable && found.code == StoreError.captivePortal)
            #expect(!found.mayHaveHappened && !found.mayStillArrive)
            #expect(found.message.contains("login.hotel.test") && !found.message.contains("back"))
        }
        #expect(error(511, []) != nil)
        #expect(error(200, [("Content-Type", "text/html; charset=utf-8")]) != nil)
    }

    @Test func answersOfTheServerAre() {
        #expect(error(307, [("Location", "https://b.s3-eu.test/k"), ("x-amz-request-id", "1")]) == nil)
        #expect(error(301, [("x-amz-bucket-region", "eu-west-1")]) == nil)
        // The same host by another way is a mistake in the settings, which nothing but a person mends.
        #expect(error(301, [("Location", "https://S3.example.test/k")]) == nil)
        #expect(error(302, [("Location", "/elsewhere")]) == nil)
        #expect(error(200, [("Content-Type", "application/xml")]) == nil)
        #expect(error(200, []) == nil)
        #expect(error(200, [("Content-Type", "text/html"), ("ETag", "\"1\"")]) == nil, "an object that is a page")
        // Some servers give the type of a page to answers without content.
        #expect(error(204, [("Content-Type", "text/html; charset=utf-8")]) == nil)
        #expect(error(200, [("Content-Type", "text/html"), ("Content-Length", "0")]) == nil)
        #expect(error(200, [("Content-Type", "text/html"), ("X-Amzn-RequestId", "U4x7")]) == nil)
        #expect(error(502, [("Content-Type", "text/html")]) == nil)
        #expect(error(403, [("Content-Type", "text/html")]) == nil)
    }

    @Test func aCertificateOfAnotherHostIsTheNetworks() {
        let message = "SSL: no alternative certificate subject name matches target host name 's3.example.test'"
        #expect(CaptivePortal.error(insecure: message)?.code == StoreError.captivePortal)
        #expect(CaptivePortal.error(insecure: "SSL certificate problem: self-signed certificate") == nil)
    }
}
