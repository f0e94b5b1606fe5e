// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import HTTPWire
import Testing

@Suite struct FieldTests {
    /// 1994-11-06T08:49:37Z, the RFC's example.
    static let example = Timestamp(seconds: 784_111_777)

    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        " Sun, 06 Nov 1994 08:49:37 GMT\t",
    ])
    func allThreeDateFormsAreRead(text: String) {
        #expect(HTTPDate.parse(text) == Self.example)
    }

    @Test(arguments: [
        "", "Sun, 06 Nov 1994 08:49:37", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 8:49:37 GMT", "1994-11-06T08:49:37Z", "Sun, 06 Nov 1994 08:49:37 UTC",
    ])
    func otherDatesAreRefused(text: String) {
        #expect(HTTPDate.parse(text) == nil)
    }

    @Test func datesAreWrittenInThePreferredForm() {
        #expect(HTTPDate.format(Self.example) == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(HTTPDate.format(Timestamp(seconds: 0)) == "Thu, 01 Jan 1970 00:00:00 GMT")
        #expect(HTTPDate.format(Timestamp(seconds: -1)) == "Wed, 31 Dec 1969 23:59:59 GMT")
        for day in stride(from: Int64(-3000), to: 30_000, by: 97) {
            let time = Timestamp(seconds: day * 86_400 + 12_345)
            #expect(HTTPDate.parse(HTTPDate.format(time)) == time)
        }
    }

    @Test func contentLengthsThatDisagreeAreNone() {
        func length(_ values: [String]) -> Int64? {
            HTTPFields(values.map { .init(name: "Content-Length", value: $0) }).contentLength
        }
        #expect(length(["12"]) == 12)
        #expect(length(["12", "12"]) == 12)
        #expect(length(["12", "13"]) == nil)
        #expect(length(["+12"]) == nil)
        #expect(length(["12, 12"]) == nil)
        #expect(length([]) == nil)
    }

    @Test func retryAfterTakesSecondsAndDates() {
        func wait(_ value: String) -> Double? {
            HTTPFields([
                .init(name: "Retry-After", value: value), .init(name: "Date", value: HTTPDate.format(Self.example)),
            ]).retryAfter(now: Timestamp(seconds: 0))
        }
        #expect(wait("120") == 120)
        #expect(wait("999999999") == 86_400)
        #expect(wait("Sun, 06 Nov 1994 08:50:37 GMT") == 60)
        #expect(wait("Sun, 06 Nov 1994 08:40:37 GMT") == 0)
        #expect(wait("-1") == nil)
    }

    @Test func linesThatCouldForgeOthersAreUnsafe() {
        #expect(HTTPFields.isSafe(name: "x-amz-meta-a", value: "grüße \t1"))
        #expect(!HTTPFields.isSafe(name: "a", value: "b\r\nc: d"))
        #expect(!HTTPFields.isSafe(name: "a", value: "b\nc"))
        #expect(!HTTPFields.isSafe(name: "a", value: "b\0"))
        #expect(!HTTPFields.isSafe(name: "a b", value: "c"))
        #expect(!HTTPFields.isSafe(name: "a:", value: "c"))
        #expect(!HTTPFields.isSafe(name: "", value: "c"))
    }

    @Test func codingsThatChangeNothingAreLeftOut() {
        let fields = HTTPFields([.init(name: "Content-Encoding", value: "aws-chunked, identity, GZip")])
        #expect(fields.contentCodings == ["gzip"])
    }
}
