// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Testing

@testable import BlockCache

@Suite struct BlockTableTests {
    @Test func theMissingBlocksAreCounted() {
        let kinds: [BlockTable.Block] = [.missing, .stored, .verified]
        var table = BlockTable([.stored, .missing, .verified, .missing])
        #expect(table.missingCount == 2)
        for before in kinds {
            for after in kinds {
                table[1] = before
                table[1] = after
                #expect(table[1] == after && table.count == 4)
                #expect(table.missingCount == (after == .missing ? 2 : 1), "from \(before) to \(after)")
            }
        }
    }
}
