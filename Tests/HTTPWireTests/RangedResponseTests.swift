// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import HTTPWire
import Testing

@Suite struct RangedResponseTests {
    static let version = ObjectVersion(entityTag: EntityTag(opaque: "t"), size: 1000)
    static let requested = ByteRange(100, 200)

    struct Case: Sendable, CustomTestStringConvertible {
        let status: Int
        let fields: [String: String]
        let expected: RangedResponse.Verdict

        init(_ status: Int, _ fields: [String: String], _ expected: RangedResponse.Verdict) {
            self.status = status
            self.fields = fields
            self.expected = expected
        }

        var testDescription: String { "\(status) \(fields)" }
    }

    static func judge(_ status: Int, _ pairs: [String: String]) -> RangedResponse.Verdict {
        let fields = HTTPFields(pairs.map { .init(name: $0.key, value: $0.value) })
        return RangedResponse.judge(status: status, fields: fields, requested: requested, expected: version)
    }

    @Test(arguments: [
        Case(206, ["ETag": "\"t\"", "Content-Range": "bytes 100-199/1000"], .use(requested)),
        Case(
            206,
            ["ETag": "t", "Content-Range": "bytes 100-199/1000", "Content-Length": "100"],
            .use(requested)
        ),
        Case(206, ["ETag": "\"t\"", "Content-Range": "bytes 100-149/*"], .use(ByteRange(100, 150))),
        Case(206, ["ETag": "W/\"t\"", "Content-Range": "bytes 100-199/1000"], .use(requested)),
        Case(
            206,
            ["ETag": "\"t\"", "Content-Range": "bytes 100-199/1000", "Content-Encoding": "aws-chunked"],
            .use(requested)
        ),
        Case(206, ["ETag": "\"u\"", "Content-Range": "bytes 100-199/1000"], .changed),
        Case(206, ["ETag": "\"t\"", "Content-Range": "bytes 100-199/1001"], .changed),
        Case(200, ["ETag": "\"t\"", "Content-Length": "1000"], .wholeObject),
        Case(200, ["ETag": "\"t\""], .wholeObject),
        Case(200, ["ETag": "\"u\"", "Content-Length": "1000"], .changed),
        Case(200, ["ETag": "\"t\"", "Content-Length": "999"], .changed),
        Case(
            200,
            ["ETag": "\"t\"", "Content-Length": "100", "Content-Range": "bytes 100-199/1000"],
            .use(requested)
        ),
        Case(412, [:], .changed),
        Case(416, ["Content-Range": "bytes */50"], .changed),
        Case(416, [:], .endOfFile(size: nil)),
        Case(404, [:], .errorStatus),
        Case(503, [:], .errorStatus),
    ])
    func answersAreJudged(one: Case) {
        #expect(Self.judge(one.status, one.fields) == one.expected)
    }

    @Test(arguments: [
        Case(206, ["ETag": "\"t\""], .changed),
        Case(206, ["Content-Range": "bytes 100-199/1000"], .changed),
        Case(206, ["ETag": "\"t\"", "Content-Range": "bytes 99-199/1000"], .changed),
        Case(206, ["ETag": "\"t\"", "Content-Range": "bytes 100-200/1000"], .changed),
        Case(206, ["ETag": "\"t\"", "Content-Range": "bytes */1000"], .changed),
        Case(206, ["ETag": "\"t\"", "Content-Range": "bytes 100-199/1000", "Content-Length": "99"], .changed),
        Case(206, ["ETag": "\"t\"", "Content-Type": "multipart/byteranges; boundary=x"], .changed),
        Case(206, ["ETag": "\"t\"", "Content-Range": "bytes 100-199/1000", "Content-Encoding": "gzip"], .changed),
        Case(200, ["ETag": "\"t\"", "Content-Range": "bytes 100-199/1000"], .changed),
        Case(200, ["ETag": "\"t\"", "Content-Range": "bytes 100-149/1000", "Content-Length": "50"], .changed),
        Case(200, ["ETag": "\"t\"", "Content-Range": "junk", "Content-Length": "1000"], .changed),
        Case(200, ["ETag": "\"t\"", "Content-Length": "1000", "Content-Encoding": "gzip"], .changed),
        Case(416, ["Content-Range": "bytes */1000"], .changed),
        Case(304, [:], .changed),
        Case(302, [:], .changed),
    ])
    func contradictionsAreRejected(one: Case) {
        guard case .reject = Self.judge(one.status, one.fields) else {
            Issue.record("accepted as \(Self.judge(one.status, one.fields))")
            return
        }
    }

    @Test func aRangeBeyondTheEndIsCutAtTheSize() {
        let fields = HTTPFields([
            .init(name: "ETag", value: "\"t\""), .init(name: "Content-Range", value: "bytes 900-999/1000"),
            .init(name: "Content-Length", value: "100"),
        ])
        for status in [200, 206] {
            let verdict = RangedResponse.judge(
                status: status,
                fields: fields,
                requested: ByteRange(900, 2000),
                expected: Self.version
            )
            #expect(verdict == .use(ByteRange(900, 1000)))
        }
        let end = RangedResponse.judge(
            status: 416,
            fields: HTTPFields([.init(name: "Content-Range", value: "bytes */1000")]),
            requested: ByteRange(1000, 2000),
            expected: Self.version
        )
        #expect(end == .endOfFile(size: 1000))
    }

    @Test func withoutATagTheTimeTellsVersionsApart() {
        let time = Timestamp(seconds: 784_111_777)
        let version = ObjectVersion(entityTag: nil, size: 1000, lastModified: time)
        func judge(_ modified: Timestamp) -> RangedResponse.Verdict {
            let fields = HTTPFields([
                .init(name: "Last-Modified", value: HTTPDate.format(modified)),
                .init(name: "Content-Range", value: "bytes 100-199/1000"),
            ])
            return RangedResponse.judge(status: 206, fields: fields, requested: Self.requested, expected: version)
        }
        #expect(judge(time) == .use(Self.requested))
        #expect(judge(time.advanced(bySeconds: 1)) == .changed)
    }
}
