// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Testing

@testable import BlockCache

@Suite struct ActiveReadersTests {
    @Test(arguments: [1, 4, 200]) func eachReaderCountsOnceHoweverOftenItReads(_ count: Int) {
        let readers = ActiveReaders()
        let stamps = (0..<count).map { _ in ActiveReaders.Stamp() }
        var most = 0
        for _ in 0..<10 {
            for stamp in stamps { most = max(most, readers.count(with: stamp)) }
        }
        #expect(most == count)
    }
}
