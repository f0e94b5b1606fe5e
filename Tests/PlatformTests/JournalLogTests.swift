// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Platform
import Testing

@Suite struct JournalLogTests {
    @Test func theJournalGetsLevelsAndNoTimes() {
        let line = Log.line(.warning, "flusher", "text", at: .now(), isJournal: true)
        #expect(line == "<4>flusher: text\n")
        let plain = Log.line(.warning, "flusher", "text", at: .now(), isJournal: false)
        #expect(plain.hasSuffix("text\n") && plain.contains("Z warning flusher["))
        #expect(
            LogLevel.allCases.map { Log.line($0, "a", "b", at: .now(), isJournal: true).prefix(3) } == [
                "<7>", "<6>", "<5>", "<4>", "<3>",
            ]
        )
    }
}
