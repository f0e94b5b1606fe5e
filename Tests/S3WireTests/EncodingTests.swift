// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import S3Wire
import TestSupport
import Testing

@Suite struct EncodingTests {
    @Test func everyByteGoesBothWays() {
        let all = (0...255).map { UInt8($0) }
        let encoded = PercentEncoding.encode(all)
        #expect(encoded.utf8.allSatisfy { $0 < 0x80 })
        #expect(PercentEncoding.decode(encoded) == all)
        #expect(PercentEncoding.encode("a/b c+d~é") == "a%2Fb%20c%2Bd~%C3%A9")
        #expect(PercentEncoding.encode("a/b", keepSlash: true) == "a/b")
    }

    @Test func plusIsASpaceOnlyWhereAsked() {
        #expect(PercentEncoding.decode("a+b%20c", plusIsSpace: true) == Array("a b c".utf8))
        #expect(PercentEncoding.decode("a+b") == Array("a+b".utf8))
        for text in ["%", "%4", "%zz", "a%G0"] { #expect(PercentEncoding.decode(text) == nil) }
    }

    @Test func queriesAreReadAndWrittenCanonically() throws {
        let query = try #require(URLQuery(wire: "uploads&b=2&b=10&prefix=a%2Fb+c&=x"))
        #expect(query.contains("uploads"))
        #expect(query["prefix"] == "a/b c")
        #expect(query["b"] == "2")
        #expect(query["none"] == nil)
        #expect(query.canonical == "=x&b=10&b=2&prefix=a%2Fb%20c&uploads=")
        #expect(URLQuery(wire: "a=%ff") == nil)
        #expect(URLQuery(wire: "a=%4") == nil)
        #expect(URLQuery(wire: Array(repeating: "a", count: 201).joined(separator: "&")) == nil)
    }

    @Test func timesOfS3AreRead() {
        #expect(Timestamp(s3: "1970-01-01T00:00:01.5Z") == Timestamp(nanoseconds: 1_500_000_000))
        #expect(Timestamp(s3: "2009-10-12T17:50:30.000Z") == Timestamp(seconds: 1_255_369_830))
        #expect(Timestamp(s3: "2009-10-12T17:50:30Z") == Timestamp(seconds: 1_255_369_830))
        for text in ["", "2009-10-12", "2009-10-12T17:50:30+01:00", "2009-13-12T17:50:30Z", "2009-10-12T17:50:30.Z"] {
            #expect(Timestamp(s3: text) == nil)
        }
    }

    @Test func documentsAreReadWithEntitiesAndNamespaces() throws {
        let text = "\n \n<?xml version=\"1.0\"?><a:R xmlns:a=\"x\"><K>a&amp;b&#x20;c<![CDATA[<d>]]></K><E/></a:R>"
        let root = try XMLReader.parse(Array(text.utf8))
        #expect(root.name == "R")
        #expect(root["K"] == "a&b c<d>")
        #expect(root["E"] == "")
        #expect(root["none"] == nil)
    }

    @Test(arguments: [
        "", "  ", "text", "<a>", "<a></b>", "<a/><b/>", "<!DOCTYPE a><a/>", "<a>&b;</a>",
        "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>", "<a>\u{1}</a>",
    ])
    func brokenAndDangerousDocumentsAreRefused(text: String) {
        #expect(throws: XMLProblem.self) { try XMLReader.parse(Array(text.utf8)) }
    }

    @Test func documentsAreBounded() {
        let deep = String(repeating: "<a>", count: 17) + String(repeating: "</a>", count: 17)
        #expect(throws: XMLProblem.self) { try XMLReader.parse(Array(deep.utf8)) }
        let wide = "<a>" + String(repeating: "<b/>", count: 100) + "</a>"
        #expect(throws: XMLProblem.self) { try XMLReader.parse(Array(wide.utf8), limits: .init(elements: 100)) }
        #expect(throws: XMLProblem.self) { try XMLReader.parse(Array(wide.utf8), limits: .init(bytes: 100)) }
        #expect(throws: Never.self) { try XMLReader.parse(Array(wide.utf8)) }
    }

    @Test func everyTextSurvivesWritingAndReading() throws {
        let text = "a<b>&\"c\"'d'\t\n\r é \u{FFFD}"
        var writer = XMLWriter()
        writer.element("R") { $0.text("T", text) }
        #expect(try XMLReader.parse(writer.bytes)["T"] == text)
    }

    @Test func mutatedDocumentsNeverCrashTheReader() throws {
        var random = SeededGenerator(seed: 4_711)
        let result = ListObjectsResult(
            bucket: "b",
            prefix: ObjectKey("p/"),
            delimiter: ObjectKey("/"),
            maxKeys: 2,
            isTruncated: true,
            isURLEncoded: true,
            entries: [.init(key: ObjectKey("p/a b"), size: 5, entityTag: "\"t\"", lastModified: Published.time)],
            commonPrefixes: [ObjectKey("p/d/")],
            paging: .v2(continuationToken: nil, nextContinuationToken: "t", startAfter: nil)
        )
        let seed = result.xml
        var read = 0
        for _ in 0..<5_000 {
            var bytes = seed
            for _ in 0...Int.random(in: 0..<3, using: &random) {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes[index] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.remove(at: index)
                case 2: bytes.insert(UInt8.random(in: 0x20...0x7E, using: &random), at: index)
                default: bytes.removeSubrange(index..<min(bytes.count, index + 20))
                }
                if bytes.isEmpty { bytes = [0x3C] }
            }
            if let root = try? XMLReader.parse(bytes), let list = try? ListObjectsResult(root) {
                read += 1
                #expect(list.entries.allSatisfy { $0.size >= 0 }, "seed \(random.seed)")
            }
        }
        #expect(read > 0)
    }
}
