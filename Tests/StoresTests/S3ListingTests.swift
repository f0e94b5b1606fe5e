// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
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
}
