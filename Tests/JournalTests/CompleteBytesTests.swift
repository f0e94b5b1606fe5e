// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Journal
import Testing

/// What uploads will give back of the disk.
@Suite struct CompleteBytesTests {
    private let fixture: Fixture
    private var journal: Journal { fixture.journal }

    init() throws { fixture = try Fixture() }

    @Test func onlyWhatStagingHoldsCounts() throws {
        #expect(try journal.completeBytes(upTo: .max) == 0)
        // Four bytes of an object of a gibibyte, and one that only has another name.
        let large = RemoteState.file(.tagged("large", 1 << 30), .file())
        let node = try journal.beginWriting(at: "edited", remote: large)
        let content = try fixture.put(node, "edit", at: 1 << 20)
        try journal.seal(node.id, try #require(node.generation).id, content: content, modified: nil)
        try journal.rename(from: "old", to: "renamed", sourceRemote: large, targetRemote: .absent)
        try fixture.save("new", "12345")
        _ = try fixture.write("open", String(repeating: "x", count: 1000))
        #expect(try journal.completeBytes(upTo: .max) == 9)
    }

    @Test(arguments: [1, 63, 64, 65, 200]) func nothingIsCountedBehindTheLimit(files: Int) throws {
        for number in 0..<files { try fixture.save(ObjectKey("f\(number)"), "12345") }
        #expect(try journal.completeBytes(upTo: .max) == Int64(files * 5))
        for limit in [1, 5, 6, 321, 1001] as [Int64] {
            let counted = try journal.completeBytes(upTo: limit)
            #expect(counted == min(Int64(files * 5), (limit + 4) / 5 * 5))
        }
        #expect(try journal.completeBytes(upTo: 0) == 0)
    }
}
