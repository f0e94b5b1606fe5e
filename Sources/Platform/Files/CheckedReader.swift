// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc

/// Reads a borrowed descriptor by whole blocks, each of which is checked in memory before a byte of it is given out.
///
/// Without a check it just reads. Used by one thread at a time.
package final class CheckedReader {
    private let descriptor: Int32
    private let check: (any FileCheck)?
    private var memory: UnsafeMutableRawBufferPointer?
    /// The block that is in memory, and how much of it there is.
    private var current: (block: Int64, count: Int)?

    package init(_ descriptor: Int32, _ check: (any FileCheck)?) {
        self.descriptor = descriptor
        self.check = check
    }

    deinit {
        memory?.deallocate()
    }

    /// Fills the buffer from `offset` on; EIO where the file ends before, or a block is not what it has to be.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(SystemError) {
        guard let check else {
            let count = try readAll(descriptor, into: buffer, at: offset)
            guard count == buffer.count else { throw Self.tooShort(offset + Int64(count)) }
            return
        }
        var done = 0
        while done < buffer.count {
            let position = offset + Int64(done)
            let block = try load(position / check.blockSize, check)
            let start = Int(position % check.blockSize)
            guard start < block.count else { throw Self.tooShort(position) }
            let count = min(block.count - start, buffer.count - done)
            UnsafeMutableRawBufferPointer(rebasing: buffer[done..<done + count])
                .copyMemory(from: UnsafeRawBufferPointer(rebasing: block[start..<start + count]))
            done += count
        }
    }

    private func load(_ block: Int64, _ check: any FileCheck) throws(SystemError) -> UnsafeRawBufferPointer {
        let memory = memory ?? .allocate(byteCount: Int(check.blockSize), alignment: 4096)
        self.memory = memory
        if let current, current.block == block { return UnsafeRawBufferPointer(rebasing: memory[..<current.count]) }
        current = nil
        let start = block * check.blockSize
        let wanted = Int(max(0, min(check.blockSize, check.size - start)))
        let bytes = UnsafeMutableRawBufferPointer(rebasing: memory[..<wanted])
        let count = try readAll(descriptor, into: bytes, at: start)
        guard count == wanted else { throw Self.tooShort(start + Int64(count)) }
        guard check.accepts(block, UnsafeRawBufferPointer(bytes)) else {
            throw SystemError.make(EIO, "check", "the bytes from \(start) on are not what was written")
        }
        current = (block, count)
        return UnsafeRawBufferPointer(bytes)
    }

    private static func tooShort(_ position: Int64) -> SystemError {
        SystemError.make(EIO, "pread", "the file ended at byte \(position)")
    }
}
