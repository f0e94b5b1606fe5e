// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import BlockCache
import Glibc
import ObjectStore
import Platform
import Synchronization
import TestSupport
import Testing

@Suite struct BlockCacheTests {
    private let key = ObjectKey("folder/object")
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    private func version(_ size: Int64, _ tag: String = "v1") -> ObjectVersion {
        ObjectVersion(entityTag: EntityTag(opaque: tag), size: size)
    }

    private func cache(_ source: FakeSource?, capacity: Int64 = 1 << 30, path: String? = nil) -> BlockCache {
        BlockCache(
            options: BlockCache.Options(
                directory: path ?? folder.path,
                blockSize: 65_536,
                capacity: capacity,
                minimumFree: 0
            ),
            source: source
        )
    }

    @Test func readsReturnTheBytesOfTheirRange() throws {
        let source = FakeSource()
        let reader = cache(source).reader(of: key, version: version(3_000_000))
        for range in [ByteRange(0, 10), ByteRange(2_999_990, 3_000_000), ByteRange(65_000, 400_000)] {
            #expect(try reader.bytes(range) == expectedBytes(range))
        }
    }

    @Test func randomReadsMatchWhateverTheirOrder() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let source = FakeSource()
        let reader = cache(source).reader(of: key, version: version(5_000_000))
        for _ in 0..<60 {
            let lower = Int64.random(in: 0..<5_000_000, using: &random)
            let range = ByteRange(lower, min(5_000_000, lower + Int64.random(in: 1...300_000, using: &random)))
            #expect(try reader.bytes(range) == expectedBytes(range))
        }
    }

    @Test func aSmallObjectIsOneRequest() throws {
        let source = FakeSource()
        let reader = cache(source).reader(of: key, version: version(900_000))
        _ = try reader.bytes(ByteRange(500_000, 500_010))
        #expect(source.requests == [ByteRange(0, 900_000)])
    }

    @Test func whatOthersHaveFetchedIsReadWithoutARemote() throws {
        let options = BlockCache.Options(directory: folder.path, blockSize: 65_536, minimumFree: 0)
        let size: Int64 = 40 << 20
        let reader = BlockCache(options: options, source: CachedOnly()).reader(of: key, version: version(size))
        let error = #expect(throws: StoreError.self) { try reader.bytes(ByteRange(0, 10)) }
        #expect(error?.cause == .notFound)
        let source = FakeSource()
        let other = cache(source).reader(of: key, version: version(size))
        let part = ByteRange(20 << 20, (20 << 20) + 200_000)
        #expect(try other.bytes(part) == expectedBytes(part))
        // Also what came after the file was opened; nothing else, and no other version.
        #expect(try reader.bytes(part) == expectedBytes(part))
        #expect(throws: StoreError.self) { try reader.bytes(ByteRange(size - 10, size)) }
        let later = BlockCache(options: options, source: CachedOnly()).reader(of: key, version: version(size, "v2"))
        #expect(throws: StoreError.self) { try later.bytes(part) }
    }

    @Test func aFileWhoseHeaderCannotBeReadIsReplaced() throws {
        let source = FakeSource()
        _ = try cache(source).reader(of: key, version: version(100)).bytes(ByteRange(0, 100))
        let path = try #require(try folder.files().first)
        // pread(2) fails on it, as on a bad sector.
        try Files.removeIfPresent(path)
        #expect(mkfifo(path, 0o600) == 0)
        let reader = cache(source).reader(of: key, version: version(100))
        #expect(try reader.bytes(ByteRange(0, 100)) == expectedBytes(ByteRange(0, 100)))
        #expect(cache(source).holds(key, version: version(100)))
    }

    @Test func whatFirstReadersBringAtOnceIsThereAfterwards() throws {
        let source = FakeSource()
        for round in 0..<50 {
            let key = ObjectKey("object\(round)")
            let cache = cache(source)
            let start = Monitor(false)
            let results = Monitor<[Bool]>([])
            for index in Int64(0)..<8 {
                try Thread.detached(name: "reader") {
                    _ = start.wait { $0 ? true : nil }
                    let range = ByteRange(index * 65_536, (index + 1) * 65_536)
                    let bytes = try? cache.reader(of: key, version: self.version(8 * 65_536)).bytes(range)
                    results.update { $0.append(bytes == expectedBytes(range)) }
                }
            }
            start.update { $0 = true }
            #expect(results.wait(timeout: 10) { $0.count == 8 ? $0 : nil } == Array(repeating: true, count: 8))
            // As after a restart.
            #expect(self.cache(source).holds(key, version: version(8 * 65_536)), "round \(round)")
        }
    }

    @Test func readersOfOneRangeShareTheFetch() throws {
        let source = FakeSource()
        source.state.update { $0.heldAt = 0 }
        let cache = cache(source)
        let readers = (0..<4).map { _ in cache.reader(of: key, version: version(500_000)) }
        let results = Monitor<[Bool]>([])
        for reader in readers {
            try Thread.detached(name: "reader") {
                let bytes = try? reader.bytes(ByteRange(100, 200))
                results.update { $0.append(bytes == expectedBytes(ByteRange(100, 200))) }
            }
        }
        _ = source.state.wait(timeout: 10) { $0.requests.isEmpty ? nil : true }
        source.state.update { $0.heldAt = .max }
        #expect(results.wait(timeout: 10) { $0.count == 4 ? $0 : nil } == [true, true, true, true])
        #expect(source.requests.count == 1)
    }

    @Test func aReaderIsAnsweredWhenItsBlocksHaveArrived() throws {
        let source = FakeSource()
        source.state.update { $0.heldAt = 70_049 }
        let reader = cache(source).reader(of: key, version: version(900_000))
        // The rest of the object stands still until the source goes on.
        #expect(try reader.bytes(ByteRange(0, 65_536)) == expectedBytes(ByteRange(0, 65_536)))
        source.state.update { $0.heldAt = .max }
    }

    @Test func aReadFarAheadDoesNotWaitForTheStream() throws {
        let source = FakeSource()
        source.state.update { $0.heldAt = 140_098 }
        let size: Int64 = 64 << 20
        let reader = cache(source).reader(of: key, version: version(size))
        // A sequential start opens a stream that stands still; the same bytes are asked for beyond its patience.
        _ = try reader.bytes(ByteRange(0, 100_000))
        let stream = try #require(source.requests.map(\.upper).max())
        #expect(stream > 1 << 20)
        source.state.inspect { $0.heldAt = .max }
        let far = ByteRange(50 << 20, (50 << 20) + 1000)
        #expect(try reader.bytes(far) == expectedBytes(far))
    }

    @Test(arguments: [Int64(500_000), 5_000_000])
    func withoutReadaheadOnlyBlocksThatAreReadAreFetched(size: Int64) throws {
        let source = FakeSource()
        let limits = ReadPlanner.Limits(maximumWindow: 0)
        let options = BlockCache.Options(directory: folder.path, blockSize: 65_536, minimumFree: 0, readahead: limits)
        let reader = BlockCache(options: options, source: source).reader(of: key, version: version(size))
        // From the beginning on, backward, and at equal distances.
        for offset in [0, 65_536, 131_072, 327_680, 262_144, 196_608] as [Int64] {
            let range = ByteRange(offset: offset, count: 65_536)
            #expect(try reader.bytes(range) == expectedBytes(range))
            #expect(source.requests.last == range)
        }
        #expect(source.requests.count == 6)
    }

    /// Also in reads shorter than a block, of which the next one is in the block that is asked for.
    @Test(arguments: [4096, 65_536, 100_000] as [Int64])
    func aBackwardReaderIsReadAheadFor(count: Int64) throws {
        let source = FakeSource()
        let size: Int64 = 6 << 20
        let reader = cache(source).reader(of: key, version: version(size))
        for end in stride(from: size, to: 0, by: -Int(count)) {
            let range = ByteRange(max(0, end - count), end)
            #expect(try reader.bytes(range) == expectedBytes(range))
        }
        #expect(source.requests.count < 30, "of \(size / 65_536) blocks")
        #expect(source.requests.reduce(0) { $0 + $1.count } == size, "nothing was fetched twice")
    }

    @Test func readaheadTakesTurnsAndNeedsNoFurtherRead() throws {
        let source = FakeSource()
        source.state.update { $0.heldAt = 140_098 }
        let size: Int64 = 40 << 20
        let window = ReadPlanner.Limits(initialWindow: 64 << 20)
        let options = BlockCache.Options(directory: folder.path, minimumFree: 0, readahead: window)
        let reader = BlockCache(options: options, source: source).reader(of: key, version: version(size))
        _ = try reader.bytes(ByteRange(0, 100_000))
        #expect(source.requests.count == 4, "the rest waits: all share one line")
        source.state.update { $0.heldAt = .max }
        for _ in 0..<12_000 where !reader.isResident(ByteRange(0, size)) { usleep(10_000) }
        #expect(reader.isResident(ByteRange(0, size)))
        #expect(source.requests.reduce(0) { $0 + $1.count } == size, "nothing was fetched twice")
    }

    @Test func cachedBytesSurviveANewStartAndAreVerified() throws {
        let range = ByteRange(0, 200_000)
        _ = try cache(FakeSource()).reader(of: key, version: version(200_000)).bytes(range)
        let source = FakeSource()
        let reader = cache(source).reader(of: key, version: version(200_000))
        #expect(reader.isResident(range))
        #expect(try reader.bytes(range) == expectedBytes(range))
        #expect(source.requests.isEmpty)
    }

    @Test func damagedBlocksAreFetchedAgain() throws {
        let range = ByteRange(0, 200_000)
        _ = try cache(FakeSource()).reader(of: key, version: version(200_000)).bytes(range)
        let path = try #require(folder.files().first)
        let file = try FileDescriptor.open(path, O_WRONLY)
        try [UInt8](repeating: 0xEE, count: 100).withUnsafeBytes { try file.write($0, at: 70_000) }
        let source = FakeSource()
        let reader = cache(source).reader(of: key, version: version(200_000))
        #expect(try reader.bytes(range) == expectedBytes(range))
        #expect(source.requests == [ByteRange(65_536, 131_072)] || source.requests == [ByteRange(0, 200_000)])
        #expect(!source.requests.isEmpty)
    }

    @Test func aTruncatedFileIsNoSourceOfZeros() throws {
        let range = ByteRange(0, 200_000)
        _ = try cache(FakeSource()).reader(of: key, version: version(200_000)).bytes(range)
        let path = try #require(folder.files().first)
        try FileDescriptor.open(path, O_WRONLY).truncate(to: 1000)
        let reader = cache(FakeSource()).reader(of: key, version: version(200_000))
        #expect(try reader.bytes(range) == expectedBytes(range))
    }

    @Test func aFileThatOthersChangeWhileItIsOpenIsNotTrusted() throws {
        let range = ByteRange(0, 200_000)
        let source = FakeSource()
        let reader = cache(source).reader(of: key, version: version(200_000))
        #expect(try reader.bytes(range) == expectedBytes(range))
        let file = try FileDescriptor.open(try #require(folder.files().first), O_WRONLY)
        usleep(10_000)
        try [UInt8](repeating: 0, count: 100).withUnsafeBytes { try file.write($0, at: 70_000) }
        #expect(try reader.bytes(range) == expectedBytes(range))
        try file.truncate(to: 0)
        #expect(try reader.bytes(range) == expectedBytes(range))
        usleep(10_000)
        try file.truncate(to: 150_000)
        #expect(try reader.bytes(range) == expectedBytes(range))
    }

    @Test func damageRightBehindAFetchIsFoundWhileTheFetchGoesOn() throws {
        let source = FakeSource()
        source.state.inspect { $0.heldAt = 140_098 }
        let reader = cache(source).reader(of: key, version: version(8 << 20))
        let block = ByteRange(0, 65_536)
        #expect(try reader.bytes(block) == expectedBytes(block))
        // At once: the file may carry the time of the fetch's own writing.
        let file = try FileDescriptor.open(try #require(folder.files().first), O_WRONLY)
        try [UInt8](repeating: 0xEE, count: 100).withUnsafeBytes { try file.write($0, at: 1000) }
        #expect(try reader.bytes(block) == expectedBytes(block))
        source.state.update { $0.heldAt = .max }
    }

    @Test func changesWhileABlockIsReadAgainAndAgainAreAllSeen() throws {
        let range = ByteRange(0, 65_536)
        let cache = cache(FakeSource())
        let reader = cache.reader(of: key, version: version(65_536))
        let file = try FileDescriptor.open(try #require(folder.files().first), O_WRONLY)
        for round in 0..<40 {
            #expect(try reader.bytes(range) == expectedBytes(range))
            // Some blocks are settled and verified by then, others not.
            usleep(UInt32(round % 4) * 10_000)
            try [0xEE ^ UInt8(round)].withUnsafeBytes { try file.write($0, at: Int64(round * 1000)) }
        }
        #expect(cache.health.damagedBlocks >= 39)
    }

    @Test func aDiskThatFailsIsLeftAloneForAWhile() {
        var health = CacheHealth()
        health.failed(SystemError.make(ENOSPC, "pwrite", "/cache"), at: 100)
        #expect(health.warning?.contains("No space left") == true)
        // At the end of the pause one tries again, and the others wait for what comes of it.
        #expect([109, 110, 110].map { health.mayStore(at: $0) } == [false, true, false])
        health.stored()
        #expect([111, 111].map { health.mayStore(at: $0) } == [true, true])
        #expect(health.warning == nil)
        health.measured(free: 10, minimumFree: 11)
        #expect([112].map { health.mayStore(at: $0) } == [false])
        #expect(health.warning?.contains("cache_free") == true)
        health.measured(free: 11, minimumFree: 11)
        #expect([113].map { health.mayStore(at: $0) } == [true])
    }

    @Test func othersAreToldHowTheCacheIs() throws {
        let path = folder.path + "/note"
        let note = try CacheNote(creating: path)
        #expect(CacheNote.read(path).warning == nil)
        var health = CacheHealth()
        health.failed(SystemError.make(EIO, "pwrite", "/cache"), at: 0)
        note.write(health)
        #expect(CacheNote.read(path).warning == health.warning)
        health.stored()
        note.write(health)
        #expect(CacheNote.read(path).warning == nil)
        #expect(CacheNote.read(folder.path + "/none") == CacheNote.Content())
    }

    @Test func versionsAreNeverMixed() throws {
        let range = ByteRange(0, 100_000)
        let old = cache(FakeSource(seed: 1)).reader(of: key, version: version(100_000, "old"))
        #expect(try old.bytes(range) == expectedBytes(range, seed: 1))
        let new = cache(FakeSource(seed: 2)).reader(of: key, version: version(100_000, "new"))
        #expect(try new.bytes(range) == expectedBytes(range, seed: 2))
        #expect(try old.bytes(range) == expectedBytes(range, seed: 1))
    }

    @Test func aChangedVersionIsAnErrorAndNothingIsKept() throws {
        let source = FakeSource()
        source.state.update { $0.failures = [(0, StoreError(.preconditionFailed, "changed"))] }
        let reader = cache(source).reader(of: key, version: version(100_000))
        #expect(throws: StoreError.self) { try reader.bytes(ByteRange(0, 100)) }
        #expect(!reader.isResident(ByteRange(0, 100)))
    }

    @Test func aBrokenConnectionIsTakenUpWhereItBroke() throws {
        let source = FakeSource()
        source.state.update { $0.failures = [(150_000, StoreError(.temporary, "cut"))] }
        let reader = cache(source).reader(of: key, version: version(900_000))
        let range = ByteRange(0, 900_000)
        #expect(try reader.bytes(range) == expectedBytes(range))
        #expect(source.requests.count == 2)
        // Whole blocks that had arrived are not asked for again.
        #expect(source.requests.last?.lower == 131_072)
    }

    @Test func anUnreachableRemoteFailsAtOnce() throws {
        let source = FakeSource()
        source.state.update { $0.failures = [(0, StoreError(.unreachable, "no route"))] }
        let reader = cache(source).reader(of: key, version: version(100_000))
        #expect(throws: StoreError.self) { try reader.bytes(ByteRange(0, 100)) }
        #expect(source.requests.count == 1)
    }

    @Test func withoutAUsableDiskReadsGoPastTheCache() throws {
        let source = FakeSource()
        let cache = cache(source, path: folder.path + "/blocks")
        try Files.removeDirectory(folder.path + "/blocks")
        // A file where the folder was: nothing can be created below it, not even by root.
        try FileDescriptor.open(folder.path + "/blocks", O_WRONLY | O_CREAT).close()
        let reader = cache.reader(of: key, version: version(300_000))
        #expect(try reader.bytes(ByteRange(1000, 2000)) == expectedBytes(ByteRange(1000, 2000)))
        #expect(source.requests == [ByteRange(1000, 2000)])
    }

    @Test func anUploadedFileBecomesTheCachedVersion() throws {
        let path = folder.path + "/staging"
        let content = expectedBytes(ByteRange(0, 150_000))
        try FileDescriptor.open(path, O_WRONLY | O_CREAT).write(content)
        let cache = cache(nil, path: folder.path + "/blocks")
        cache.adopt(path, as: key, version: version(150_000))
        #expect(try FileStatus.of(path) == nil)
        let source = FakeSource(seed: 9)
        let reader = self.cache(source, path: folder.path + "/blocks").reader(of: key, version: version(150_000))
        #expect(try reader.bytes(ByteRange(0, 150_000)) == content)
        #expect(source.requests.isEmpty)
    }

    /// Who had it open before it was sent reads the file itself, and knows nothing of blocks that were given back.
    @Test(arguments: [true, false]) func nothingIsGivenBackOfAFileThatIsOpenElsewhere(hasSign: Bool) throws {
        let (path, place) = (folder.path + "/staging", Int64(90 << 20))
        let opened = try FileDescriptor.open(path, O_RDWR | O_CREAT)
        if hasSign { opened.noteUse() }
        let content = expectedBytes(ByteRange(0, 65_536))
        try content.withUnsafeBytes { try opened.write($0, at: place) }
        let size = place + Int64(content.count)
        let cache = cache(FakeSource(), capacity: 10, path: folder.path + "/blocks")
        cache.adopt(path, as: key, version: version(size))
        let reader = cache.reader(of: key, version: version(size))
        #expect(try reader.bytes(ByteRange(0, 65_536)) == [UInt8](repeating: 0, count: 65_536))
        cache.maintain()
        var found = [UInt8](repeating: 0, count: content.count)
        #expect(try found.withUnsafeMutableBytes { try opened.read(into: $0, at: place) } == content.count)
        #expect((found == content) == hasSign, "without the sign the space is given back")
        withExtendedLifetime(reader) {}
    }

    @Test func aFileOfTheWrongLengthIsNotAdopted() throws {
        let path = folder.path + "/staging"
        try FileDescriptor.open(path, O_WRONLY | O_CREAT).write([1, 2, 3])
        let cache = cache(nil, path: folder.path + "/blocks")
        cache.adopt(path, as: key, version: version(4))
        #expect(try folder.files().isEmpty)
    }

    @Test func theLeastRecentlyUsedGoFirst() throws {
        let source = FakeSource()
        let cache = cache(source, capacity: 250_000)
        for name in ["a", "b", "c"] {
            _ = try cache.reader(of: ObjectKey(name), version: version(100_000)).bytes(ByteRange(0, 100_000))
        }
        for (age, path) in try folder.files().enumerated() {
            var times = [timespec(tv_sec: 1000 + age, tv_nsec: 0), timespec(tv_sec: 1000 + age, tv_nsec: 0)]
            #expect(utimensat(AT_FDCWD, path, &times, 0) == 0)
        }
        let newest = try #require(folder.files().last)
        cache.maintain()
        #expect(try folder.files().count < 3)
        #expect(try folder.files().contains(newest))
    }

    @Test func whatIsBeingReadStays() throws {
        let cache = cache(FakeSource(), capacity: 10)
        let reader = cache.reader(of: key, version: version(100_000))
        _ = try reader.bytes(ByteRange(0, 100_000))
        cache.maintain()
        #expect(try reader.bytes(ByteRange(0, 100_000)) == expectedBytes(ByteRange(0, 100_000)))
        #expect(try folder.files().count == 1)
    }
}
