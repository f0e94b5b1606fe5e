// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Bandwidth
import Base
import Glibc
import Platform
import Testing

@Suite struct TimetableTests {
    /// A time of 2026; July 26 is a Sunday.
    private static func utc(_ month: Int32, _ day: Int32, _ hour: Int32, _ minute: Int32) -> Timestamp {
        var parts = tm()
        (parts.tm_year, parts.tm_mon, parts.tm_mday, parts.tm_hour, parts.tm_min) = (126, month - 1, day, hour, minute)
        return Timestamp(seconds: Int64(timegm(&parts)))
    }

    /// Runs `body` with the time zone set, in a process of a test's own: others read the environment meanwhile.
    private static func inZone(_ zone: String, _ body: () throws -> Void) rethrows {
        setenv("TZ", zone, 1)
        try body()
    }

    @Test(
        arguments: [
            ("10M", 10 << 20), ("512k", 512 << 10), ("1.5MiB/s", 3 << 19), ("1G", 1 << 30), ("4096B", 4096),
            ("off", nil),
            ("0", nil),
        ] as [(String, Int64?)]
    )
    func ratesAreRead(text: String, rate: Int64?) throws {
        let table = try #require(Timetable(text))
        #expect(table.rate(atMinute: 0) == rate && table.rate(atMinute: 7000) == rate)
        #expect(table.nextSwitch(after: Self.utc(7, 26, 0, 0), in: FixedClock()) == nil)
    }

    @Test(arguments: [
        "", " ", "10", "10X", "-1M", "1e9M", "08:00", "08:00,", "8,1M", "24:00,1M", "08:60,1M", "8:0,1M", "Mo-08:00,1M",
        "Monkey-08:00,1M", "08:00,1M 09:00", "08:00,1M,2M", "100B", "NaNM", "infM", "٣M", "08:00,1M\n09:00,2M",
    ])
    func whatIsNoRateIsRefused(text: String) {
        #expect(Timetable(text) == nil)
    }

    @Test func entriesCountUntilTheNextAndTheLastUntilTheFirst() throws {
        let table = try #require(Timetable("08:00,512K 19:00,10M 23:00,off"))
        let clock = FixedClock()
        #expect(table.rate(at: Self.utc(7, 26, 7, 59), in: clock) == nil)
        #expect(table.rate(at: Self.utc(7, 26, 8, 0), in: clock) == 512 << 10)
        #expect(table.rate(at: Self.utc(7, 26, 18, 59), in: clock) == 512 << 10)
        #expect(table.rate(at: Self.utc(7, 26, 19, 0), in: clock) == 10 << 20)
        #expect(table.rate(at: Self.utc(7, 26, 23, 30), in: clock) == nil)
        #expect(table.nextSwitch(after: Self.utc(7, 26, 7, 0), in: clock) == Self.utc(7, 26, 8, 0))
        #expect(table.nextSwitch(after: Self.utc(7, 26, 8, 0), in: clock) == Self.utc(7, 26, 19, 0))
        #expect(table.nextSwitch(after: Self.utc(7, 26, 23, 0), in: clock) == Self.utc(7, 27, 8, 0))
        // East of here it is later.
        #expect(table.nextSwitch(after: Self.utc(7, 26, 7, 0), in: FixedClock(offset: 3600)) == Self.utc(7, 26, 18, 0))
    }

    @Test func daysGoBeforeNoDays() throws {
        let table = try #require(Timetable("Mon-08:00,1M 08:00,2M saturday-00:00,off"))
        let clock = FixedClock()
        #expect(table.rate(at: Self.utc(7, 27, 9, 0), in: clock) == 1 << 20)
        #expect(table.rate(at: Self.utc(7, 28, 9, 0), in: clock) == 2 << 20)
        #expect(table.rate(at: Self.utc(8, 1, 3, 0), in: clock) == nil)
        #expect(table.rate(at: Self.utc(8, 1, 8, 0), in: clock) == 2 << 20)
        #expect(table.nextSwitch(after: Self.utc(7, 27, 9, 0), in: clock) == Self.utc(7, 28, 8, 0))
        #expect(
            table.nextSwitch(after: Self.utc(7, 28, 9, 0), in: clock) == Self.utc(8, 1, 0, 0),
            "the same rate is no switch"
        )
        let week = try #require(Timetable("Sun-12:00,1M Wed-12:00,2M"))
        #expect(week.rate(at: Self.utc(7, 26, 11, 0), in: clock) == 2 << 20, "the last of the week before")
        #expect(week.nextSwitch(after: Self.utc(7, 29, 12, 0), in: clock) == Self.utc(8, 2, 12, 0))
    }

    @Test func aLeftOutHourSwitchesWhenTheClockSkipsIt() async {
        await #expect(processExitsWith: .success) {
            try Self.inZone("Europe/Berlin") {
                let table = try #require(Timetable("02:30,1M 12:00,off"))
                let clock = SystemLocalClock()
                // On 29 March at 01:00 UTC the clock goes from 2 to 3.
                #expect(table.rate(at: Self.utc(3, 29, 0, 59), in: clock) == nil)
                #expect(table.nextSwitch(after: Self.utc(3, 29, 0, 0), in: clock) == Self.utc(3, 29, 1, 0))
                #expect(table.rate(at: Self.utc(3, 29, 1, 0), in: clock) == 1 << 20)
                #expect(table.nextSwitch(after: Self.utc(3, 29, 1, 0), in: clock) == Self.utc(3, 29, 10, 0))
            }
        }
    }

    @Test func anHourThatComesTwiceCountsTwice() async {
        await #expect(processExitsWith: .success) {
            try Self.inZone("Europe/Berlin") {
                let table = try #require(Timetable("02:30,1M 12:00,off"))
                let clock = SystemLocalClock()
                // On 25 October at 01:00 UTC the clock goes from 3 back to 2.
                #expect(table.nextSwitch(after: Self.utc(10, 25, 0, 0), in: clock) == Self.utc(10, 25, 0, 30))
                #expect(table.nextSwitch(after: Self.utc(10, 25, 0, 30), in: clock) == Self.utc(10, 25, 1, 0))
                #expect(table.rate(at: Self.utc(10, 25, 1, 10), in: clock) == nil)
                #expect(table.nextSwitch(after: Self.utc(10, 25, 1, 10), in: clock) == Self.utc(10, 25, 1, 30))
            }
        }
    }

    @Test func theZoneThatIsSetNowCounts() async {
        await #expect(processExitsWith: .success) {
            let table = try #require(Timetable("08:00,1M 20:00,off"))
            let noon = Self.utc(7, 26, 12, 0)
            Self.inZone("UTC") { #expect(table.rate(at: noon, in: SystemLocalClock()) == 1 << 20) }
            Self.inZone("Asia/Tokyo") {
                #expect(table.rate(at: noon, in: SystemLocalClock()) == nil)
                #expect(table.nextSwitch(after: noon, in: SystemLocalClock()) == Self.utc(7, 26, 23, 0))
            }
        }
    }

    @Test func nextSwitchIsWhereTheRateChanges() async {
        await #expect(processExitsWith: .success) {
            var random = SystemRandomNumberGenerator()
            let seed = UInt64.random(in: 0 ... .max, using: &random)
            print("seed \(seed)")
            var state = seed
            func next(_ limit: UInt64) -> UInt64 {
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                return (state >> 33) % limit
            }
            Self.inZone("America/New_York") {
                for _ in 0..<20 {
                    let days = ["", "Mon-", "Tue-", "Sun-", "Fri-"]
                    let words = (0...next(6)).map { _ in
                        "\(days[Int(next(5))])\(next(24)):\(next(60) + 100),\(next(4) + 1)M".replacing3()
                    }
                    guard let table = Timetable(words.joined(separator: " ")) else {
                        Issue.record("\(words)")
                        continue
                    }
                    let start = Self.utc(3, 1, 0, 0).advanced(bySeconds: Double(next(300 * 86_400)))
                    let clock = SystemLocalClock()
                    let now = table.rate(at: start, in: clock)
                    let found = table.nextSwitch(after: start, in: clock)
                    var expected: Timestamp?
                    for minute in 1...(8 * 24 * 60) {
                        let time = Timestamp(seconds: (start.seconds / 60 + Int64(minute)) * 60)
                        if table.rate(at: time, in: clock) != now {
                            expected = time
                            break
                        }
                    }
                    #expect(found == expected, "\(words) at \(start.seconds)")
                }
            }
        }
    }
}

extension String {
    /// `9:107,1M` as `9:07,1M`: a minute that was given a hundred too many so that it has its zero.
    fileprivate func replacing3() -> String {
        guard let colon = firstIndex(of: ":") else { return self }
        let first = index(after: colon)
        return String(self[...colon]) + String(self[index(after: first)...])
    }
}
