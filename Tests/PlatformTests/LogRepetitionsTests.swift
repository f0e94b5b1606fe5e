// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Platform
import Testing

@Suite struct LogRepetitionsTests {
    private func at(_ seconds: Int64) -> Timestamp { Timestamp(seconds: 1_000_000 + seconds) }

    @Test func aLineThatComesAgainAndAgainIsWrittenNowAndThenAndCounted() {
        var lines = LogRepetitions()
        let counts = (0..<25).map { lines.note("the disk has failed", at: at($0)) }
        #expect(counts.enumerated().filter { $0.element != nil }.map(\.offset) == [0, 10, 20])
        #expect(counts.compactMap(\.self) == [0, 9, 9])
    }

    @Test func otherLinesAreWrittenAndAClockThatIsSetBackHoldsNoneUp() {
        var lines = LogRepetitions()
        for number in 0..<100 {
            let count = lines.note("line \(number)", at: at(0))
            #expect(count == 0)
        }
        let again = [
            lines.note("line 99", at: at(1)), lines.note("line 99", at: at(-5)), lines.note("line 0", at: at(1)),
        ]
        #expect(again == [nil, 1, 0])
    }
}
