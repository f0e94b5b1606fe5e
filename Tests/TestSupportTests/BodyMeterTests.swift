// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import TestSupport
import Testing

@Suite struct BodyMeterTests {
    /// Feeds a text in pieces of every size and returns the content count, the rest and whether it ended.
    private func measure(_ text: String, _ framing: BodyFraming, piece: Int) -> (payload: Int64, used: Int, ended: Bool)
    {
        let bytes = Array(text.utf8)
        var meter = BodyMeter(framing)
        var used = 0
        while used < bytes.count, !meter.isFinished {
            let part = Array(bytes[used..<min(bytes.count, used + piece)])
            used += part.withUnsafeBytes { meter.advance($0) }
        }
        return (meter.payload, used, meter.isFinished)
    }

    @Test func chunksAreFollowedAcrossAnyCut() {
        let body = "5\r\nhello\r\nA;name=x\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n"
        for piece in 1...body.utf8.count {
            let result = measure(body + "GET / HTTP/1.1", .chunked, piece: piece)
            #expect(result == (15, body.utf8.count, true), "pieces of \(piece)")
        }
    }

    @Test func aLengthEndsTheBodyThere() {
        #expect(measure("hello world", .length(5), piece: 3) == (5, 5, true))
        #expect(measure("hel", .length(5), piece: 3) == (3, 3, false))
        #expect(BodyMeter(.length(0)).isFinished)
    }

    @Test func aBodyUntilCloseNeverEndsByItself() {
        #expect(measure("hello", .untilClose, piece: 2) == (5, 5, false))
    }
}
