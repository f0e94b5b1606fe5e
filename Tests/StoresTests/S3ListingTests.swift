// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import ObjectStore
import Stores
import TestSupport
import Testing

/// What is told of the pages of a listing before they are read.
@Suite struct S3ListingTests {
    @Test(arguments: [("a/b==", ["2:a/b=="]), ("a&amp;b", []), ("first", [])])
    func aListingForetellsWhereItGoesOn(token: String, foretold: [String]) throws {
        let fixture = try StoreFixture()
        let body = """
            <ListBucketResult><KeyCount>0</KeyCount><IsTruncated>true</IsTruncated>\
            <NextContinuationToken>\(token)</NextContinuationToken></ListBucketResult>
            """
        let answer = CannedResponse(status: 200, body: body)
        fixture.proxy.plan.add(FaultRule(.respond(answer), for: .init(query: "list-type=2"), times: nil))
        var tokens: [String] = []
        let page = try? fixture.store.list(.root, recursive: false, continuation: "2:first") { tokens.append($0) }
        #expect(tokens == foretold)
        // A token that leads back to the same page is no page's.
        #expect(page?.next == (token == "first" ? nil : "2:\(token.replacing("&amp;", with: "&"))"))
    }

    @Test func namesThatAreNoTextAreAskedForByTheirBytes() throws {
        let fixture = try StoreFixture()
        let body = """
            <ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>\
            <NextMarker>%FC/n%FE</NextMarker></ListBucketResult>
            """
        fixture.proxy.plan.add(
            FaultRule(.respond(CannedResponse(status: 200, body: body)), for: .init(method: "GET"), times: nil)
        )
        let folder = ObjectKey(bytes: [0xFC])
        let page = try fixture.store.list(folder, recursive: false, continuation: "1:%FC/n%FD")
        #expect(page.next == "1:%FC/n%FE")
        for _ in 0..<1000 where fixture.proxy.plan.records.isEmpty { usleep(10_000) }
        let query = try #require(fixture.proxy.plan.records.last?.query)
        #expect(query.contains("&marker=%FC%2Fn%FD&"))
        #expect(query.split(separator: "&").contains { $0.hasPrefix("prefix=") && $0.hasSuffix("%FC%2F") }, "\(query)")
    }
}
