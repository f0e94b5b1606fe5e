// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CShims
internal import Platform

/// Memory that reads are answered from, kept for the next read: fresh pages cost more than the copy into them.
final class BlockBuffers: Sendable {
    private struct Buffer: @unchecked Sendable {
        let memory: UnsafeMutableRawBufferPointer
    }

    /// The length of those that are kept, in bytes: the kernel's longest read, and two blocks around it.
    private static let length = (1 << 20) + (128 << 10)
    /// No more threads than that answer at once, most of the time.
    private static let maximumIdle = 12

    /// Up to here each thread has memory of its own, and there is nothing to share; in bytes.
    private static let small = 64 << 10

    // Not a Mutex: that hands itself to the thread that waits, and so many short uses become one switch of threads each.
    private let idle = Monitor<[Buffer]>([])

    deinit {
        idle.inspect { buffers in
            for buffer in buffers { buffer.memory.deallocate() }
        }
    }

    /// Calls `body` with `count` bytes of memory, not initialised.
    func withBuffer<Value>(_ count: Int, _ body: (UnsafeMutableRawBufferPointer) -> Value) -> Value {
        if count <= Self.small, let memory = moorage_take_thread_buffer(Self.small) {
            defer { moorage_return_thread_buffer(memory) }
            return body(UnsafeMutableRawBufferPointer(start: memory, count: count))
        }
        let buffer =
            idle.inspect { $0.popLast() }
            .flatMap { $0.memory.count >= count ? $0 : Self.release($0) } ?? Self.make(count)
        defer { give(back: buffer) }
        return body(UnsafeMutableRawBufferPointer(rebasing: buffer.memory[..<count]))
    }

    private static func make(_ count: Int) -> Buffer {
        Buffer(memory: .allocate(byteCount: max(count, length), alignment: 4096))
    }

    private static func release(_ buffer: Buffer) -> Buffer? {
        buffer.memory.deallocate()
        return nil
    }

    private func give(back buffer: Buffer) {
        let isKept = idle.inspect { buffers in
            guard buffers.count < Self.maximumIdle, buffer.memory.count == Self.length else { return false }
            buffers.append(buffer)
            return true
        }
        if !isKept { buffer.memory.deallocate() }
    }
}
