// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CXXHash
internal import Glibc
internal import ObjectStore
internal import Platform
internal import Synchronization

/// One ranged read on its way into an object's cache file.
///
/// The transfer thread gathers what arrives in one go, and an ``ArrivalWriter``
/// puts it into the file; readers are answered as soon as their blocks have landed.
final class BlockFetch: RangeSink, @unchecked Sendable {
    /// What all threads see; guarded by the object's monitor.
    struct Progress {
        /// The offset up to which bytes are in the file.
        var position: Int64
        /// The offset at which this fetch stops being responsible: lowered when a reader needs bytes far ahead.
        var limit: Int64
        var handle: (any RangeFetch)?
        var result: Result<Void, StoreError>?
        /// The disk refused the bytes.
        var diskFailed = false
        /// The next fetch need not wait for the little that is still to come.
        var isEnding = false
    }

    let range: ByteRange
    private let object: CachedObject
    private let budget: FetchBudget
    private let gauge: LineGauge
    private let writer: ArrivalWriter
    /// What has arrived and was not handed to the writer yet; the transfer thread's.
    private var gathered: ArrivalBuffer?
    // Used by the writer only, and before there is anything for it.
    private let hash: OpaquePointer?
    private var block: Int
    private var pace: FetchPace
    /// How many bytes of it are in the file.
    private var stored: Int64 = 0
    var progress: Progress

    init(_ object: CachedObject, range: ByteRange, budget: FetchBudget, gauge: LineGauge, writer: ArrivalWriter) {
        self.object = object
        self.range = range
        self.budget = budget
        self.gauge = gauge
        self.writer = writer
        hash = XXH3_createState()
        XXH3_64bits_reset(hash)
        block = Int(range.lower / object.geometry.blockSize)
        pace = FetchPace(startedAt: monotonicSeconds())
        progress = Progress(position: range.lower, limit: range.upper)
    }

    deinit {
        XXH3_freeState(hash)
    }

    /// The bytes this fetch still answers for.
    var owned: ByteRange { ByteRange(range.lower, max(range.lower, progress.limit)) }

    /// The part of ``owned`` whose blocks are still to come.
    func remaining(_ geometry: BlockGeometry) -> ByteRange {
        let end = owned.upper
        guard progress.position < end else { return ByteRange(end, end) }
        return ByteRange(max(range.lower, progress.position / geometry.blockSize * geometry.blockSize), end)
    }

    /// The request goes out now: what it waited for before is not the remote's.
    func requested() { pace = FetchPace(startedAt: monotonicSeconds()) }

    // MARK: The transfer thread

    func received(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        var taken = 0
        while taken < bytes.count {
            let buffer = gathered ?? writer.buffer()
            gathered = buffer
            if buffer.count == 0 { buffer.begin(at: offset + Int64(taken)) }
            taken += buffer.append(UnsafeRawBufferPointer(rebasing: bytes[taken...]))
            guard buffer.isFull else { continue }
            gathered = nil
            writer.add(.store(self, [buffer]))
        }
    }

    func drained() {
        guard let buffer = gathered else { return }
        // No block ends within a page of the disk but the last one, and an end there would keep what follows from being
        // written past the kernel's memory.
        let rest = buffer.range.upper < range.upper ? buffer.partOfPage : UnsafeRawBufferPointer(start: nil, count: 0)
        guard rest.count < buffer.count else { return }
        gathered = nil
        if !rest.isEmpty {
            let next = writer.buffer()
            next.begin(at: buffer.range.upper - Int64(rest.count))
            _ = next.append(rest)
            buffer.cut(to: buffer.count - rest.count)
            gathered = next
        }
        writer.add(.store(self, [buffer]))
    }

    func finished(_ result: Result<Void, StoreError>) {
        if let buffer = gathered { writer.add(.store(self, [buffer])) }
        gathered = nil
        writer.add(.end(self, result))
    }

    // MARK: The writer

    /// Puts the bytes that the fetch still answers for into the file; the buffers follow each other.
    func store(_ arrived: [ArrivalBuffer]) {
        let buffers = wanted(of: arrived)
        guard let offset = buffers.first?.offset, let end = buffers.last?.range.upper else { return }
        let first = block
        var blocks = (first: first, checksums: [UInt64]())
        for buffer in buffers {
            digest(buffer, completing: &blocks.checksums)
            _ = writer.recent.admit(buffer, of: object)
        }
        do {
            try object.put(buffers, completing: blocks, isDirect: !writer.isBehind)
        } catch {
            writer.recent.released(buffers)
            object.diskFailed(self, error)
            return
        }
        let isEnding = isEnding(after: end - offset, upTo: end)
        object.landed(self, upTo: end, completing: blocks, isEnding: isEnding, kept: buffers)
    }

    private func wanted(of buffers: [ArrivalBuffer]) -> [ArrivalBuffer] {
        guard let offset = buffers.first?.offset, let end = buffers.last?.range.upper else { return [] }
        let wanted = object.wantedBytes(of: self, offset: offset, count: Int(end - offset))
        return buffers.filter { buffer in
            buffer.cut(to: max(0, wanted - Int(buffer.offset - offset)))
            return buffer.count > 0
        }
    }

    private func isEnding(after count: Int64, upTo end: Int64) -> Bool {
        let now = monotonicSeconds()
        stored += count
        if let latency = pace.note(count, at: now) {
            gauge.began(after: latency, at: now)
        } else {
            gauge.received(count, at: now)
        }
        return pace.isEnding(remaining: range.upper - end, latency: gauge.latency, at: now)
    }

    func end(_ result: Result<Void, StoreError>) {
        if pace.hasBegun {
            let now = monotonicSeconds()
            gauge.ended(stored, after: now - pace.startedAt, at: now)
        }
        budget.ended()
        object.ended(self, result)
    }

    /// Hashes the bytes and adds the checksums of the blocks they complete, which follow each other.
    private func digest(_ buffer: ArrivalBuffer, completing completed: inout [UInt64]) {
        let (bytes, offset) = (buffer.bytes, buffer.offset)
        var done = 0
        while done < bytes.count {
            let end = object.geometry.range(of: block).upper
            let count = min(bytes.count - done, Int(end - offset) - done)
            moorage_XXH3_64bits_update(hash, bytes.baseAddress.map { $0 + done }, count)
            done += count
            guard offset + Int64(done) == end else { break }
            completed.append(XXH3_64bits_digest(hash))
            XXH3_64bits_reset(hash)
            block += 1
        }
    }
}

/// What the fetches of all objects share: a bound of those that nobody waits for yet.
final class FetchBudget: Sendable {
    private let running = Atomic<Int>(0)
    private let limit: Int

    init(limit: Int) {
        self.limit = limit
    }

    /// Counts one more fetch for readahead; false when there may be none.
    func takeReadahead() -> Bool {
        // Counted before it is known, as several objects may ask at once.
        if running.add(1, ordering: .relaxed).newValue <= limit { return true }
        ended()
        return false
    }

    /// Whether there are so many fetches already that nothing more is fetched ahead.
    var isCrowded: Bool { running.load(ordering: .relaxed) >= limit }

    func started() { running.add(1, ordering: .relaxed) }
    func ended() { running.subtract(1, ordering: .relaxed) }
}
