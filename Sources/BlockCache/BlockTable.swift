// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What is known of each block of an object, and how many of them are missing.
struct BlockTable: Sendable {
    enum Block: UInt8, Sendable {
        case missing
        case stored
        case verified
    }

    private var blocks: [Block]
    private(set) var missingCount: Int

    init(_ blocks: [Block]) {
        self.blocks = blocks
        missingCount = blocks.count { $0 == .missing }
    }

    var count: Int { blocks.count }
    var indices: Range<Int> { blocks.indices }

    subscript(block: Int) -> Block {
        get { blocks[block] }
        set {
            missingCount += (newValue == .missing ? 1 : 0) - (blocks[block] == .missing ? 1 : 0)
            blocks[block] = newValue
        }
    }
}
