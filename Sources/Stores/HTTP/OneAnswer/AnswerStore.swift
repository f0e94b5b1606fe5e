// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// The bytes of an answer that are kept: all in a file without a name, or what that does not take in memory.
///
/// In memory only the last megabytes stay. Everything runs on the transfer thread.
final class AnswerStore {
    private let memory: AnswerMemory
    private var file: FileDescriptor?
    /// How many bytes the file has, from the beginning.
    private(set) var fileEnd: Int64 = 0
    /// Whether the disk takes everything so far.
    private(set) var isOnDisk = true
    private var chunks: [AnswerMemory.Chunk] = []
    /// The bytes that are in memory.
    private var window = ByteRange(0, 0)

    init(directory: String, memory: AnswerMemory) {
        self.memory = memory
        do throws(SystemError) {
            file = try Self.make(directory)
        } catch {
            fail(error)
        }
    }

    deinit {
        memory.gaveBack(chunks.count)
        if !isOnDisk { memory.ended() }
    }

    private static func make(_ directory: String) throws(SystemError) -> FileDescriptor {
        try Files.makeDirectories(directory)
        let path = "\(directory)/spool-\(Randomness.hexadecimal(bytes: 8))"
        let file = try FileDescriptor.open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW)
        // Nobody else needs its name, and without one it goes with the process.
        try Files.removeIfPresent(path)
        return file
    }

    private func fail(_ error: SystemError) {
        guard isOnDisk else { return }
        isOnDisk = false
        memory.began(error)
        Log.info("http", "a file that is read in one answer is kept in memory: \(error)")
    }

    /// How many bytes an answer may be ahead of those who read, so that as many behind them are still there.
    var room: Int64 { Int64(memory.share(with: chunks.count) * AnswerMemory.Chunk.size) / 2 }

    /// Up to where the bytes from `offset` on are there without a gap; `offset` when that one is not.
    func end(from offset: Int64) -> Int64 {
        let end = offset < fileEnd ? fileEnd : offset
        return window.lower <= end && end < window.upper ? window.upper : end
    }

    /// Keeps bytes of an answer, of which each follows the one before; what is there is left as it is.
    func add(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        let skipped = Int(min(Int64(bytes.count), max(0, end(from: offset) - offset)))
        let new = UnsafeRawBufferPointer(rebasing: bytes[skipped...])
        guard !new.isEmpty else { return }
        let start = offset + Int64(skipped)
        if isOnDisk, start == fileEnd, write(new) { return }
        if window.upper != start { forgetMemory(upTo: start) }
        remember(new)
    }

    private func write(_ bytes: UnsafeRawBufferPointer) -> Bool {
        do throws(SystemError) {
            try file?.write(bytes, at: fileEnd)
            fileEnd += Int64(bytes.count)
            return true
        } catch {
            fail(error)
            return false
        }
    }

    /// Forgets what it has from `offset` on.
    func cut(to offset: Int64) {
        fileEnd = min(fileEnd, offset)
        if window.upper > offset { forgetMemory(upTo: offset) }
    }

    private func forgetMemory(upTo offset: Int64) {
        memory.gaveBack(chunks.count)
        chunks = []
        window = ByteRange(offset, offset)
    }

    private func remember(_ bytes: UnsafeRawBufferPointer) {
        var rest = bytes
        while !rest.isEmpty {
            let chunk = chunkWithRoom()
            let count = min(rest.count, chunk.bytes.count - chunk.count)
            UnsafeMutableRawBufferPointer(rebasing: chunk.bytes[chunk.count...]).copyMemory(
                from: UnsafeRawBufferPointer(rebasing: rest[..<count])
            )
            chunk.count += count
            window = ByteRange(window.lower, window.upper + Int64(count))
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
    }

    /// The last chunk, or another one: a new one while there may be more, else the oldest.
    private func chunkWithRoom() -> AnswerMemory.Chunk {
        if let last = chunks.last, last.count < last.bytes.count { return last }
        if chunks.count < memory.share(with: chunks.count) {
            memory.took()
            chunks.append(AnswerMemory.Chunk())
        } else {
            let oldest = chunks.removeFirst()
            window = ByteRange(window.lower + Int64(oldest.count), window.upper)
            oldest.count = 0
            chunks.append(oldest)
        }
        return chunks[chunks.count - 1]
    }

    /// Calls `body` with bytes that are there, from `offset` on and up to `end` at most.
    ///
    /// False when they are not any more, as the disk does not give them.
    func read(_ offset: Int64, upTo end: Int64, _ body: (UnsafeRawBufferPointer) -> Void) -> Bool {
        if offset < fileEnd { return readFile(offset, Int(min(end, fileEnd) - offset), body) }
        let place = Int(offset - window.lower)
        let chunk = chunks[place / AnswerMemory.Chunk.size]
        let lower = place % AnswerMemory.Chunk.size
        let upper = min(chunk.count, lower + Int(end - offset))
        body(UnsafeRawBufferPointer(rebasing: chunk.bytes[lower..<upper]))
        return true
    }

    private func readFile(_ offset: Int64, _ count: Int, _ body: (UnsafeRawBufferPointer) -> Void) -> Bool {
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: min(count, AnswerMemory.Chunk.size),
            alignment: 4096
        )
        defer { buffer.deallocate() }
        do throws(SystemError) {
            guard try file?.read(into: buffer, at: offset) == buffer.count else { throw SystemError.make(EIO, "read") }
        } catch {
            fail(error)
            file = nil
            fileEnd = 0
            return false
        }
        body(UnsafeRawBufferPointer(buffer))
        return true
    }
}
