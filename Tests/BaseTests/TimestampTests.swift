// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Testing

@Suite struct TimestampTests {
    @Test(arguments: [
        (Int64(0), "1970-01-01T00:00:00.000Z"),
        (951_782_400, "2000-02-29T00:00:00.000Z"),
        (1_795_154_400, "2026-11-20T06:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.000Z"),
        (4_107_542_399, "2100-02-28T23:59:59.000Z"),
    ])
    func showsUTC(seconds: Int64, text: String) {
        #expect(Timestamp(seconds: seconds).rfc3339 == text)
    }

    @Test func civilDatesRoundTripOverFourCenturies() {
        for day in stride(from: Int64(-30_000), through: 90_000, by: 1) {
            let time = Timestamp(seconds: day * 86_400 + 3661)
            #expect(Timestamp(time.civil) == time)
        }
    }

    @Test func nanosecondsBelowZeroCountUpwards() {
        let time = Timestamp(nanoseconds: -1)
        #expect(time.seconds == -1)
        #expect(time.nanosecondsOfSecond == 999_999_999)
    }

    @Test func farTimesSaturate() {
        #expect(Timestamp(seconds: .max).nanoseconds == .max)
        #expect(Timestamp(seconds: .min).nanoseconds == .min)
        #expect(Timestamp(nanoseconds: .max).advanced(bySeconds: 1).nanoseconds == .max)
        #expect(Timestamp(nanoseconds: .min).advanced(bySeconds: -1).nanoseconds == .min)
    }

    @Test(arguments: [Int64.min, .min + 1, .min + 999_999_999, -1_000_000_000, -999_999_999, 0, .max])
    func everyTimeHasItsParts(nanoseconds: Int64) {
        let time = Timestamp(nanoseconds: nanoseconds)
        #expect(0..<1_000_000_000 ~= time.nanosecondsOfSecond)
        #expect(Timestamp(seconds: time.seconds + 1, nanoseconds: time.nanosecondsOfSecond - 1_000_000_000) == time)
    }
}
