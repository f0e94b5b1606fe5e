// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Platform

/// Compares the bytes of a sealed content with what they were when it was written, and remembers what is wrong.
package final class ContentCheck: FileCheck {
    package let size: Int64
    private let list: ChecksumList
    /// Whatever has no checksum is zero.
    private let isComplete: Bool
    private let damage = Lock<Int64?>(nil)

    package init(_ list: ChecksumList, size: Int64, isComplete: Bool) {
        self.list = list
        self.size = size
        self.isComplete = isComplete
    }

    package var blockSize: Int64 { ChecksumList.blockSize }

    /// Where the first block begins that was not what it had to be; nil while all were.
    package var damagedAt: Int64? { damage.withLock { $0 } }

    package func accepts(_ block: Int64, _ bytes: UnsafeRawBufferPointer) -> Bool {
        if list.matches(block, bytes), !isComplete || list.isZeroElsewhere(block, bytes) { return true }
        damage.withLock { if $0 == nil { $0 = ChecksumList.range(of: block).lower } }
        return false
    }
}

extension Journal {
    /// What the bytes of a sealed generation, all of them local, have to be; nil where nobody knows.
    package func check(of generation: Generation) throws(JournalError) -> ContentCheck? {
        try read { tables throws(JournalError) in try tables.check(of: generation) }
    }

    /// The same for the bytes that a generation has of its own, while others are perhaps being fetched.
    package func checkOfOwnBytes(of generation: Generation) throws(JournalError) -> ContentCheck? {
        guard generation.checksums != .none, generation.doubt == .none else { return nil }
        let list = try checksums(of: generation.id)
        return ContentCheck(list, size: generation.content.extents.upperBound, isComplete: false)
    }
}

extension Tables {
    func check(of generation: Generation) throws(JournalError) -> ContentCheck? {
        guard generation.checksums != .none, generation.doubt == .none else { return nil }
        let (list, isSound) = try checksums(of: generation.id)
        let isComplete = isSound && generation.checksums == .complete
        return ContentCheck(list, size: generation.size, isComplete: isComplete)
    }
}
