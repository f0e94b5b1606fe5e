// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import HTTPWire
import TestSupport
import Testing

@testable import BucketServer

@Suite struct HTTPHeadParserTests {
    private let request = Array(
        "PUT /b/k%20?x=a+b&y HTTP/1.1\r\nHost: h:1\r\nX-A: \t one \r\nContent-Length: 12\r\nExpect: 100-Continue\r\n\r\nrest"
            .utf8
    )

    /// Feeds bytes in pieces; the head and how many bytes belong to it.
    private func parse(_ bytes: [UInt8], pieces: [Int]) throws -> (head: HTTPRequestHead?, consumed: Int) {
        var parser = HTTPHeadParser(limits: HTTPLimits())
        var position = 0
        for size in pieces where position < bytes.count {
            let piece = Array(bytes[position..<min(bytes.count, position + size)])
            let (consumed, head) = try piece.withUnsafeBytes { try parser.consume($0) }
            position += consumed
            if let head { return (head, position) }
        }
        return (nil, position)
    }

    @Test func aHeadIsTheSameHoweverItsBytesArrive() throws {
        var generator = SeededGenerator.random("aHeadIsTheSameHoweverItsBytesArrive")
        let whole = try parse(request, pieces: [request.count])
        #expect(whole.consumed == request.count - 4)
        #expect(whole.head?.method == "PUT")
        #expect(whole.head?.target == "/b/k%20?x=a+b&y")
        #expect(whole.head?.fields["x-a"] == "one")
        #expect(whole.head?.framing == .length(12))
        #expect(whole.head?.expectsContinue == true)
        #expect(whole.head?.keepsAlive == true)
        for _ in 0..<200 {
            let pieces = (0..<request.count).map { _ in Int.random(in: 1...9, using: &generator) }
            let split = try parse(request, pieces: pieces)
            #expect(split.head == whole.head)
            #expect(split.consumed == whole.consumed)
        }
    }

    @Test func noSingleChangedByteMakesTwoReadingsOfTheFraming() throws {
        let plain = Array("PUT /k HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\n".utf8)
        for index in plain.indices {
            for octet in UInt8.min...UInt8.max {
                var bytes = plain
                bytes[index] = octet
                guard let head = try? parse(bytes, pieces: [bytes.count]).head else { continue }
                // Whatever is accepted has exactly one framing field, spelled right, or none that looks like one.
                let names = head.fields.fields.map { $0.name.lowercased() }
                if case .length(let length) = head.framing, length > 0 {
                    #expect(
                        head.fields["content-length"] == String(length) || head.fields["content-length"] == "0\(length)"
                    )
                } else {
                    #expect(head.framing == .length(0))
                    #expect(!names.contains("transfer-encoding"))
                }
            }
        }
    }

    @Test func rubbishNeverStopsTheParserItself() {
        var generator = SeededGenerator.random("rubbishNeverStopsTheParserItself")
        for _ in 0..<2000 {
            var bytes = request
            for _ in 0..<Int.random(in: 1...6, using: &generator) {
                bytes[Int.random(in: bytes.indices, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
            }
            if let head = try? parse(bytes, pieces: [bytes.count]).head { _ = try? HTTPTarget.parse(head.target) }
        }
    }

    @Test func anEmptyLineInFrontIsForgivenOnce() throws {
        let one = Array("\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n".utf8)
        #expect(try parse(one, pieces: [one.count]).head?.target == "/")
        let two = Array("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n".utf8)
        #expect(throws: HTTPParseError.self) { try parse(two, pieces: [two.count]) }
    }

    @Test func anAbsoluteTargetIsReducedToItsPath() throws {
        let bytes = Array("GET HTTP://H:1/a?b HTTP/1.1\r\nHost: h:1\r\n\r\n".utf8)
        #expect(try parse(bytes, pieces: [bytes.count]).head?.target == "/a?b")
    }

    @Test func targetsAreTakenApartByteByByte() throws {
        let (path, query) = try HTTPTarget.parse("/a%2Fb/%C3%BC+?prefix=a%26b+c&uploads&e=")
        #expect(path == Array("/a/b/ü+".utf8))
        #expect(query.map(\.name) == ["prefix", "uploads", "e"])
        #expect(query[0].text == "a&b c")
        #expect(query[1].value == nil)
        #expect(query[2].value == [])
        for bad in ["/%", "/%1", "/%zz", "/?a=%x1", "/?%ff=1"] {
            #expect(throws: HTTPParseError.self) { try HTTPTarget.parse(bad) }
        }
    }
}

@Suite struct ChunkedDecoderTests {
    /// Decodes in pieces; the content, and how many bytes behind the end were left.
    private func decode(_ bytes: [UInt8], pieces: inout SeededGenerator) throws -> (content: [UInt8], rest: Int)? {
        var decoder = ChunkedDecoder(limits: HTTPLimits())
        var content: [UInt8] = []
        var position = 0
        while position < bytes.count {
            let end = min(bytes.count, position + Int.random(in: 1...40, using: &pieces))
            let piece = Array(bytes[position..<end])
            switch try piece.withUnsafeBytes({ try decoder.next($0) }) {
            case .framing(let count): position += count
            case .content(let count):
                content += piece[..<count]
                position += count
            case .end(let count): return (content, bytes.count - position - count)
            }
        }
        return nil
    }

    @Test func contentIsTheSameHoweverItsBytesArrive() throws {
        var generator = SeededGenerator.random("contentIsTheSameHoweverItsBytesArrive")
        for _ in 0..<100 {
            var expected: [UInt8] = []
            var wire: [UInt8] = []
            for _ in 0..<Int.random(in: 0...5, using: &generator) {
                let chunk = (0..<Int.random(in: 1...300, using: &generator)).map { _ in UInt8(0x0A) }
                expected += chunk
                wire += Array("\(String(chunk.count, radix: 16))\r\n".utf8) + chunk + [0x0D, 0x0A]
            }
            wire += Array("0\r\nA: b\r\n\r\nNEXT".utf8)
            let result = try decode(wire, pieces: &generator)
            #expect(result?.content == expected)
            #expect(result?.rest == 4)
        }
    }

    @Test func aSizeThatWouldOverflowIsRefused() {
        var generator = SeededGenerator(seed: 1)
        for size in ["1000000000000000", "FFFFFFFFFFFFFFFF", "-1", "+1", "0x1", "1 ", "", "g"] {
            #expect(throws: HTTPParseError.self) {
                try decode(Array("\(size)\r\na\r\n0\r\n\r\n".utf8), pieces: &generator)
            }
        }
    }
}

@Suite struct HTTPResponseHeadTests {
    @Test func valuesCannotBeginLinesOfTheirOwn() {
        var fields = HTTPFields()
        fields.append("X-Meta", "a\r\nSet-Cookie: x\0")
        fields.append("Bad Name\r\nX", "y")
        let text = String(decoding: HTTPResponseHead.encoded(200, fields), as: UTF8.self)
        #expect(text == "HTTP/1.1 200 OK\r\nX-Meta: a  Set-Cookie: x \r\n\r\n")
    }

    @Test func aTransferThatTricklesIsNoticed() {
        var limits = HTTPLimits()
        limits.stallTimeout = 10
        limits.leastBytesPerStallTimeout = 100
        var rate = TransferRate(limits: limits)
        let steps = [(1, 0.0), (98, 9.9), (0, 10), (100, 15), (1, 20), (1, 30.5)]
        let verdicts = steps.map { bytes, time in rate.add(bytes, now: time) }
        #expect(verdicts == [true, true, false, true, true, false])
    }
}
