// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import ObjectStore
import TestSupport
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

    /// However many read, what they have ahead together is bounded.
    @Test(arguments: [1, 100, 500, 1000]) func allReadersHaveTheirSharesOfOneBudget(_ count: Int) throws {
        let folder = try TemporaryFolder()
        let cache = BlockCache(options: .init(directory: folder.path, minimumFree: 0), source: SteppedSource())
        let version = ObjectVersion(entityTag: EntityTag(opaque: "v1"), size: 1 << 30)
        let readers = (0..<count).map { _ in cache.reader(of: ObjectKey("object"), version: version) }
        var shares: [Int64] = []
        let expected = count <= 500 ? BlockCache.readaheadBudget / Int64(count) : 0
        // All are known of from the second time on, unless the machine stood still meanwhile.
        for round in 0..<20 where round < 2 || shares.contains(where: { $0 != expected }) {
            shares = readers.map { cache.share(of: $0) }
        }
        #expect(shares.allSatisfy { $0 == expected })
    }
}
