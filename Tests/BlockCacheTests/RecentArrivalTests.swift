// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import ObjectStore
import Platform
import Synchronization
import TestSupport
import Testing

@testable import BlockCache

/// Reading what has just come from memory.
@Suite struct RecentArrivalTests {
    private let folder: TemporaryFolder
    private let key = ObjectKey("recent")

    init() throws {
        folder = try TemporaryFolder()
    }

    private func cache(_ source: any RangeSource) -> BlockCache {
        BlockCache(options: BlockCache.Options(directory: folder.path, minimumFree: 0), source: source)
    }

    private func version(_ size: Int64) -> ObjectVersion {
        ObjectVersion(entityTag: EntityTag(opaque: "v1"), size: size)
    }

    /// The object's cache file, by its name.
    private func path(_ cache: BlockCache, _ size: Int64) throws -> String {
        try cache.filePath(BlockCache.name(key, version(size)))
    }

    /// Has the object arrive as such pieces, each in a go of its own; returns when all of it is stored and a byte was read.
    private func deliver(_ source: SteppedSource, _ reader: CacheReader, _ pieces: [ByteRange]) throws {
        let done = try Thread(name: "reader") { _ = try? reader.bytes(ByteRange(0, 1)) }
        let sink = source.sink()
        for piece in pieces {
            expectedBytes(piece).withUnsafeBytes { sink.received($0, at: piece.lower) }
            sink.drained()
        }
        sink.finished(.success(()))
        done.join()
        for piece in pieces {
            while !reader.isResident(piece) { usleep(1000) }
        }
    }

    private func overwrite(_ path: String, _ range: ByteRange) throws {
        let file = try FileDescriptor.open(path, O_RDWR)
        try [UInt8](repeating: 0xEE, count: Int(range.count)).withUnsafeBytes { bytes in
            try file.write(bytes, at: range.lower)
        }
    }

    @Test func whatCameIsReadFromMemoryUntilAllOfItWas() throws {
        let source = SteppedSource()
        let size: Int64 = 512 << 10
        let cache = cache(source)
        let reader = cache.reader(of: key, version: version(size))
        try deliver(source, reader, [ByteRange(0, size)])
        try overwrite(path(cache, size), ByteRange(0, size))
        // The first byte was read before, so that these are the last of the first buffer.
        #expect(try reader.bytes(ByteRange(1, 300_000)) == expectedBytes(ByteRange(1, 300_000)))
        #expect(cache.health.damagedBlocks == 0)
        #expect(try reader.bytes(ByteRange(300_000, size)) == expectedBytes(ByteRange(300_000, size)))
        #expect(cache.health.damagedBlocks == 0)
        // Now it is only in the file.
        let again = try Thread(name: "again") { _ = try? reader.bytes(ByteRange(0, 10)) }
        let sink = source.sink(1)
        expectedBytes(ByteRange(0, size)).withUnsafeBytes { sink.received($0, at: 0) }
        sink.finished(.success(()))
        again.join()
        #expect(cache.health.damagedBlocks == 1)
    }

    @Test func aReadIsPutTogetherFromMemoryAndFile() throws {
        let source = SteppedSource()
        let size: Int64 = 900_000
        let reader = cache(source).reader(of: key, version: version(size))
        // Short arrivals are not kept.
        let short = stride(from: Int64(262_144), to: 400_000, by: 10_000).map {
            ByteRange($0, min($0 + 10_000, 400_000))
        }
        try deliver(source, reader, [ByteRange(0, 262_144)] + short + [ByteRange(400_000, size)])
        for range in [ByteRange(100, 300_000), ByteRange(270_000, 800_000), ByteRange(5, size), ByteRange(5, size)] {
            #expect(try reader.bytes(range) == expectedBytes(range), "\(range)")
        }
        #expect(source.requests == 1)
    }

    @Test func whatComesInPiecesOfAnyLengthIsInTheFile() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for round in 0..<20 {
            let source = SteppedSource()
            let size = Int64.random(in: 1...(1 << 20), using: &random)
            let tag = ObjectVersion(entityTag: EntityTag(opaque: "v\(round)"), size: size)
            let reader = cache(source).reader(of: key, version: tag)
            var pieces: [ByteRange] = []
            while let position = Optional(pieces.last?.upper ?? 0), position < size {
                let length = Int64.random(in: 1...(Bool.random(using: &random) ? 5000 : 700_000), using: &random)
                pieces.append(ByteRange(position, min(size, position + length)))
            }
            try deliver(source, reader, pieces)
            let other = SteppedSource()
            let found = try cache(other).reader(of: key, version: tag).bytes(ByteRange(0, size))
            #expect(found == expectedBytes(ByteRange(0, size)), "seed \(seed), round \(round)")
            #expect(other.requests == 0)
        }
    }

    private func buffers(_ count: Int, of memory: ArrivalMemory, bytes: Int = 100_000) -> [ArrivalBuffer] {
        (0..<count).map { index in
            let buffer = ArrivalBuffer(memory)
            buffer.begin(at: Int64(index * ArrivalBuffer.capacity))
            _ = [UInt8](repeating: 1, count: bytes).withUnsafeBytes { buffer.append($0) }
            return buffer
        }
    }

    @Test func onlySoMuchIsKept() throws {
        let recent = RecentArrivals()
        let memory = ArrivalMemory()
        let object = try #require(cache(SteppedSource()).object(of: key, version: version(1 << 30)))
        let buffers = buffers(161, of: memory)
        for buffer in buffers.prefix(160) { #expect(recent.admit(buffer, of: object)) }
        #expect(!recent.admit(buffers[160], of: object))
        recent.released([buffers[40]])
        #expect(recent.admit(buffers[160], of: object))
        recent.released([buffers[41]])
        #expect(!recent.admit(self.buffers(1, of: memory, bytes: 1000)[0], of: object))
    }

    @Test func whoLeavesInAnyOrderMakesRoom() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("places seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let recent = RecentArrivals()
        let memory = ArrivalMemory()
        let object = try #require(cache(SteppedSource()).object(of: key, version: version(1 << 30)))
        var kept: [ArrivalBuffer] = []
        for round in 0..<200 {
            while let buffer = buffers(1, of: memory).first, recent.admit(buffer, of: object, at: 1) {
                kept.append(buffer)
            }
            #expect(kept.count == 160, "seed \(seed), round \(round)")
            // The first one stays for long, so that the others leave from behind it, some of them twice.
            for _ in 0..<Int.random(in: 1...150, using: &random) {
                let gone = kept.remove(at: Int.random(in: 1..<kept.count, using: &random))
                recent.released(Bool.random(using: &random) ? [gone, gone] : [gone])
                #expect(recent.held(of: [gone]).isEmpty)
            }
            #expect(recent.held(of: kept).count == kept.count)
            #expect(recent.placeCount <= 321)
        }
    }

    @Test func theOldestMakeRoomAfterASecondAndAllGoAfterTen() throws {
        let recent = RecentArrivals()
        let memory = ArrivalMemory()
        let object = try #require(cache(SteppedSource()).object(of: key, version: version(1 << 30)))
        let buffers = buffers(166, of: memory)
        for (index, buffer) in buffers.prefix(160).enumerated() {
            #expect(recent.admit(buffer, of: object, at: index < 2 ? 10 : 10.5))
        }
        #expect(!recent.admit(buffers[160], of: object, at: 10.9))
        // The first has left meanwhile, and one that had no right yet: both make room, and then the second has no right any more.
        recent.released([buffers[0], buffers[5]])
        #expect(recent.admit(buffers[160], of: object, at: 11.1))
        #expect(recent.admit(buffers[161], of: object, at: 11.1))
        #expect(recent.admit(buffers[162], of: object, at: 11.1))
        #expect(recent.held(of: [buffers[1]]).isEmpty)
        #expect(!recent.admit(buffers[163], of: object, at: 11.1))
        recent.expire(at: 20.6)
        #expect(recent.held(of: buffers).map { $0.offset } == buffers[160...162].map { $0.offset })
        #expect(recent.placeCount == 3)
    }

    @Test func whatIsGoneKeepsNoPlaces() throws {
        let recent = RecentArrivals()
        let memory = ArrivalMemory()
        do {
            let gone = try #require(cache(SteppedSource()).object(of: key, version: version(1 << 30)))
            for buffer in buffers(160, of: memory) { #expect(recent.admit(buffer, of: gone, at: 10)) }
        }
        let other = try #require(cache(SteppedSource()).object(of: ObjectKey("other"), version: version(1 << 30)))
        for buffer in buffers(160, of: memory) { #expect(recent.admit(buffer, of: other, at: 10)) }
        #expect(!recent.admit(buffers(1, of: memory)[0], of: other, at: 10))
    }

    @Test func keptBuffersAreFoundByTheirPlace() {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("kept buffers seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let memory = ArrivalMemory()
        var kept = KeptBuffers()
        var all: [ArrivalBuffer] = []
        func sorted(_ buffers: [ArrivalBuffer]) -> [ByteRange] {
            buffers.map { $0.range }.sorted { ($0.lower, $0.upper) < ($1.lower, $1.upper) }
        }
        for round in 0..<1000 {
            let buffer = ArrivalBuffer(memory)
            // Some have the same place: what was damaged in the file comes a second time.
            buffer.begin(at: Int64.random(in: 0..<40, using: &random) * 65_536)
            let count = Int.random(in: 1...ArrivalBuffer.capacity, using: &random)
            _ = [UInt8](repeating: 1, count: count).withUnsafeBytes { buffer.append($0) }
            kept.insert([buffer])
            all.append(buffer)
            let lower = Int64.random(in: 0..<3_000_000, using: &random)
            let range = ByteRange(lower, lower + Int64.random(in: 1...1_000_000, using: &random))
            let found = kept.holding(range)
            let expected = all.filter { $0.range.intersection(range) != nil }
            #expect(sorted(found) == sorted(expected), "seed \(seed), round \(round)")
            #expect(found.map { $0.offset } == found.map { $0.offset }.sorted())
            guard all.count > 20 else { continue }
            let gone = all.remove(at: Int.random(in: 0..<all.count, using: &random))
            if Bool.random(using: &random) {
                kept.remove([gone])
            } else {
                #expect(kept.removeAll { $0 === gone }.count == 1)
            }
        }
        #expect(kept.removeAll { _ in true }.count == all.count)
        #expect(kept.holding(ByteRange(0, 1 << 40)).isEmpty)
    }

    @Test func whereDirectWritesAreNotKnownTheUsualOnesAreMade() throws {
        // Files of proc(5) cannot be opened with O_DIRECT.
        let file = try FileDescriptor.open("/proc/self/comm", O_RDWR)
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 8192, alignment: 4096)
        defer { memory.deallocate() }
        memory.initializeMemory(as: UInt8.self, repeating: 7)
        #expect(try !DirectFile().write([UnsafeRawBufferPointer(memory)], at: 0, of: file))
        #expect(DirectFile.takes(UnsafeRawBufferPointer(memory), at: 4096))
        #expect(!DirectFile.takes(UnsafeRawBufferPointer(memory), at: 100))
        #expect(!DirectFile.takes(UnsafeRawBufferPointer(rebasing: memory[..<100]), at: 0))
        #expect(!DirectFile.takes(UnsafeRawBufferPointer(rebasing: memory[1...4096]), at: 0))
    }

    @Test func directWritesGoOnWhenTheDescriptorIsGivenUpMeanwhile() throws {
        let path = folder.path + "/direct"
        let file = try FileDescriptor.open(path, O_RDWR | O_CREAT)
        let direct = DirectFile()
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 4096)
        defer { memory.deallocate() }
        memory.initializeMemory(as: UInt8.self, repeating: 7)
        let bytes = UnsafeRawBufferPointer(memory)
        guard try direct.write([bytes], at: 0, of: file) else { return }  // This file system has none.
        let isDone = Atomic(false)
        let closer = try Thread(name: "closer") {
            while !isDone.load(ordering: .relaxed) { direct.close() }
        }
        var written = 0
        var found = [UInt8](repeating: 0, count: memory.count)
        for index in 0..<500 {
            memory.initializeMemory(as: UInt8.self, repeating: UInt8(index % 251))
            let offset = Int64(index % 16) << 16
            guard (try? direct.write([bytes], at: offset, of: file)) == true else { continue }
            let count = found.withUnsafeMutableBytes { (try? file.read(into: $0, at: offset)) ?? 0 }
            if count == found.count, found.allSatisfy({ $0 == UInt8(index % 251) }) { written += 1 }
        }
        isDone.store(true, ordering: .relaxed)
        closer.join()
        #expect(written == 500)
    }
}
