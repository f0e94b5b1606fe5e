// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import FileSystem
import Testing

@testable import FuseBridge

@Suite struct MissingNamesTests {
    @Test func whatIsBelievedToBeMissingIsToldOnce() {
        var missing = MissingNames()
        missing.note(1, ObjectKey("a"), until: 10, now: 9)
        missing.note(7, ObjectKey("b"), until: 10, now: 9)
        #expect(missing.take().map(\.name) == [ObjectKey("a"), ObjectKey("b")])
        #expect(missing.take().isEmpty)
    }

    @Test func thoseThatHaveAgedMakeRoomFirst() {
        var missing = MissingNames()
        for number in 0..<MissingNames.limit {
            missing.note(1, ObjectKey("\(number)"), until: number < 4000 ? 5 : 50, now: 1)
        }
        missing.note(1, ObjectKey("new"), until: 60, now: 10)
        let names = missing.take().map(\.name)
        #expect(names.count == MissingNames.limit - 4000 + 1)
        #expect(names.first == ObjectKey("4000") && names.last == ObjectKey("new"))
    }

    @Test func thereAreNeverMoreThanTheLimit() {
        var missing = MissingNames()
        for number in 0..<10 * MissingNames.limit {
            missing.note(1, ObjectKey("\(number)"), until: 1000, now: 1)
        }
        let names = missing.take().map(\.name)
        #expect(names.count <= MissingNames.limit)
        #expect(names.last == ObjectKey("\(10 * MissingNames.limit - 1)"))
    }
}
