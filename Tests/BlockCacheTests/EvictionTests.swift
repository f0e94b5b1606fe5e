// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Platform
import TestSupport
import Testing

@testable import BlockCache

@Suite struct EvictionTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    /// A cache of equal files in memory, with the clock of its uses.
    private struct Model {
        let capacity: Int
        let isPlain: Bool
        var files: [Int: EvictionPolicy.File] = [:]
        var clock: Int64 = 0
        var hits = 0

        /// Uses a file; each use is far enough from the one before to count.
        mutating func use(_ name: Int) {
            clock += 1
            if files[name] != nil { hits += 1 }
            let isKnown = files[name] != nil && !isPlain
            files[name] = EvictionPolicy.File(bytes: 1, lastUse: clock, isProtected: isKnown)
            guard files.count > capacity else { return }
            let names = files.keys.sorted()
            let victims = EvictionPolicy.victims(
                of: names.compactMap { files[$0] },
                surplus: Int64(files.count - capacity / 10 * 9),
                isSample: false
            )
            for victim in victims { files[names[victim]] = nil }
        }
    }

    /// Hits in the second pass over the hot files, with a scan of many others between the two.
    private func hitsAfterScan(isPlain: Bool) -> Int {
        var model = Model(capacity: 1000, isPlain: isPlain)
        for _ in 0..<2 { for file in 0..<600 { model.use(file) } }
        for file in 0..<5_000 { model.use(100_000 + file) }
        model.hits = 0
        for file in 0..<600 { model.use(file) }
        return model.hits
    }

    @Test func aBigScanDisplacesNothingThatIsUsedAgain() {
        let (plain, segmented) = (hitsAfterScan(isPlain: true), hitsAfterScan(isPlain: false))
        print("hits of 600 after a scan of 5,000 files: least recently used \(plain), segmented \(segmented)")
        #expect(segmented == 600)
        #expect(plain == 0, "the scan is no test of the policy")
    }

    @Test func usesOfUnequalFrequencyHitAsOftenAsWithoutSegments() {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var hits: [Int] = []
        for isPlain in [true, false] {
            var random = SeededGenerator(seed: seed)
            var model = Model(capacity: 300, isPlain: isPlain)
            for _ in 0..<8_000 {
                // About a Zipf distribution of 5,000 files.
                model.use(Int(Glibc.exp(Double.random(in: 0..<Glibc.log(5000), using: &random))))
            }
            hits.append(model.hits)
        }
        print("hits of 8,000: least recently used \(hits[0]), segmented \(hits[1])")
        #expect(hits[1] >= hits[0])
    }

    @Test func whatIsNotUsedAnyMoreGoesInTheEnd() {
        var model = Model(capacity: 1000, isPlain: false)
        for _ in 0..<2 { for file in 0..<900 { model.use(file) } }
        for _ in 0..<2 { for file in 2000..<2090 { model.use(file) } }
        for round in 0..<40 { for _ in 0..<2 { for file in 0..<50 { model.use(10_000 + round * 50 + file) } } }
        #expect(model.files.keys.filter { $0 < 900 }.isEmpty)
    }

    @Test func ofASampleOnlyTheOldestGo() {
        let files = (0..<100).map { EvictionPolicy.File(bytes: 1, lastUse: Int64(100 - $0), isProtected: false) }
        let victims = EvictionPolicy.victims(of: files, surplus: 1000, isSample: true)
        #expect(Set(victims) == Set(75..<100))
        #expect(EvictionPolicy.victims(of: files, surplus: 1000, isSample: false).count == 100)
        #expect(EvictionPolicy.victims(of: [], surplus: 1, isSample: true).isEmpty)
    }

    @Test func foldersTellAboutThoseThatWereNotMeasured() {
        var sizes = FolderSizes()
        #expect(sizes.total == 0 && !sizes.isComplete)
        for folder in 0..<64 { sizes.measured(folder, bytes: 1000) }
        #expect(sizes.total == 256_000 && sizes.next == 64)
        for folder in 64..<256 { sizes.measured(folder, bytes: 0) }
        #expect(sizes.total == 64_000 && sizes.isComplete && sizes.next == 0)
        sizes.add(500, to: 3)
        sizes.add(-2000, to: 4)
        #expect(sizes.total == 63_500)
        sizes.measured(3, bytes: 0)
        #expect(sizes.total == 62_000)
    }

    private func cache(capacity: Int64) -> BlockCache {
        let options = BlockCache.Options(directory: folder.path, capacity: capacity, minimumFree: 0)
        return BlockCache(options: options, source: FakeSource())
    }

    private func use(_ name: String, _ cache: BlockCache) throws {
        let version = ObjectVersion(entityTag: EntityTag(opaque: "v"), size: 10_000)
        let range = ByteRange(0, 10_000)
        #expect(try cache.reader(of: ObjectKey(name), version: version).bytes(range) == expectedBytes(range))
    }

    /// Moves every last use into the past, as if that much time had gone by.
    private func age(by seconds: Int) throws {
        for path in try folder.files() {
            let time = try #require(try FileStatus.of(path)).modified
            var times = [timespec](repeating: timespec(tv_sec: Int(time.seconds) - seconds, tv_nsec: 0), count: 2)
            #expect(utimensat(AT_FDCWD, path, &times, 0) == 0)
        }
    }

    @Test func whatWasUsedAgainOutlivesAScanAndANewStart() throws {
        let first = cache(capacity: 1 << 20)
        for _ in 0..<2 {
            for name in ["hot1", "hot2"] { try use(name, first) }
            try age(by: 100)
        }
        let second = cache(capacity: 200_000)
        for number in 0..<100 {
            try use("scan\(number)", second)
            second.maintain()
            try age(by: 1)
        }
        #expect(try folder.files().count < 16)
        let source = FakeSource()
        let options = BlockCache.Options(directory: folder.path, minimumFree: 0)
        let third = BlockCache(options: options, source: source)
        for name in ["hot1", "hot2"] { try use(name, third) }
        #expect(source.requests.isEmpty, "the scan displaced what is used again and again")
        try use("scan1", third)
        #expect(source.requests.count == 1)
    }

    @Test func manyPinnedFilesAreNotAllLookedAtForOneThatCanGo() throws {
        let pinned = "\(folder.path)/pinned"
        _ = try FileDescriptor.open(pinned, O_WRONLY | O_CREAT)
        for number in 0..<25_000 {
            let name = "\(Randomness.hexadecimal(bytes: 16))"
            if number < 2000 { try Files.makeDirectories("\(folder.path)/\(name.prefix(2))") }
            _ = link(pinned, "\(folder.path)/\(name.prefix(2))/\(name)")
        }
        let cache = cache(capacity: 0)
        #expect(cache.trim(1 << 20) == 0)
        #expect(cache.registry.withLock { !$0.sizes.isComplete })
    }

    @Test func theSpaceTakenIsMeasuredAFewFoldersAtATime() throws {
        for number in 0..<3000 {
            let name = "\(Randomness.hexadecimal(bytes: 16))"
            try Files.makeDirectories("\(folder.path)/\(name.prefix(2))")
            let file = try FileDescriptor.open("\(folder.path)/\(name.prefix(2))/\(name)", O_WRONLY | O_CREAT)
            if number % 10 == 0 { try file.write([UInt8](repeating: 1, count: 4096)) }
        }
        let cache = cache(capacity: 100 << 20)
        cache.maintain()
        let estimate = cache.usedBytes
        cache.measureAll()
        let exact = cache.usedBytes
        #expect(exact == 300 * 4096)
        #expect(estimate != exact && estimate > exact / 2 && estimate < exact * 2)
    }
}

@Suite struct PinTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    @Test func pinsOfAnyNameReadBack() {
        var list = PinList()
        let paths = ["", "a", "a b/ü", "new\nline", "100%", "a%0Ab"].map { ObjectKey($0) }
        for path in paths { _ = list.insert(path) }
        #expect(PinList(parsing: list.text) == list)
        #expect(list.paths == paths.sorted())
        #expect(PinList(parsing: Array("no slash\n/%zz\n/%4\n/ok\n".utf8)).paths == [ObjectKey("ok")])
    }

    @Test func aPinOfAFolderCoversWhatIsInIt() {
        var list = PinList(parsing: Array("/a/b\n".utf8))
        #expect(["a/b", "a/b/c/d", "a/bc", "a"].map { list.covers(ObjectKey($0)) } == [true, true, false, false])
        #expect(!list.contains(ObjectKey("a/b/c")))
        let removed = [list.remove(ObjectKey("a/b/c")), list.remove(ObjectKey("a/b")), list.remove(ObjectKey("a/b"))]
        #expect(removed == [false, true, false])
    }

    /// What is pinned would be let go of, or the list be written anew without it.
    @Test func aListThatCannotBeReadIsNotAnEmptyOne() throws {
        let path = folder.path + "/pins"
        try Files.makeDirectories(path)
        let store = PinStore(path: path)
        #expect(throws: SystemError.self) { try store.load() }
        #expect(throws: SystemError.self) { try store.change { $0.insert(ObjectKey("a")) } }
    }

    @Test func theProgressOfPinsIsTold() throws {
        let store = PinStore(path: folder.path + "/pins")
        #expect(try store.load() == PinList())
        #expect(store.progress().isEmpty && store.revision.isEmpty)
        var first = PinProgress(path: ObjectKey("a b"))
        (first.files, first.bytesTotal, first.bytesPresent) = (3, 100, 50)
        var second = PinProgress(path: .root)
        second.problem = "no\nroom"
        try store.tell([first, second])
        second.problem = "no room"
        #expect(store.progress() == [first, second])
    }

    @Test func whatIsHeldIsNeitherEvictedNorCleared() throws {
        let version = ObjectVersion(entityTag: EntityTag(opaque: "v"), size: 100_000)
        let options = BlockCache.Options(directory: folder.path, capacity: 10, minimumFree: 0)
        let source = FakeSource()
        var names = Set<String>()
        do {
            let cache = BlockCache(options: options, source: source)
            for name in ["held", "other"] {
                let reader = cache.reader(of: ObjectKey(name), version: version)
                #expect(try reader.complete(while: { true }))
                #expect(reader.residentBytes == 100_000)
                if name == "held" { names = [try cache.hold(reader)] }
            }
        }
        // Another process sees it too.
        let cache = BlockCache(options: options, source: source)
        cache.maintain()
        cache.clear()
        #expect(try folder.files().count == 2, "the file and its second name")
        #expect(cache.reader(of: ObjectKey("held"), version: version).isResident(ByteRange(0, 100_000)))
        cache.releaseHeld(except: names)
        cache.clear()
        #expect(try folder.files().count == 2)
        cache.releaseHeld(except: [])
        cache.clear()
        #expect(try folder.files().isEmpty)
    }

    @Test func whatIsHeldStaysWholeWhileItIsOpenAfterANewStart() throws {
        // Of others only 64 MiB behind the last read would be spared.
        let size: Int64 = 80 << 20
        let version = ObjectVersion(entityTag: EntityTag(opaque: "v"), size: size)
        let options = BlockCache.Options(directory: folder.path, blockSize: 1 << 20, capacity: 10, minimumFree: 0)
        let (key, source) = (ObjectKey("held"), FakeSource())
        do {
            let reader = BlockCache(options: options, source: source).reader(of: key, version: version)
            #expect(try reader.complete(while: { true }))
        }
        // Nothing is held in the first round, so that the second one finds the second name.
        for _ in 0..<2 {
            let cache = BlockCache(options: options, source: source)
            let reader = cache.reader(of: key, version: version)
            _ = try cache.hold(reader)
            _ = try reader.bytes(ByteRange(0, 10))
            cache.maintain()
            #expect(reader.residentBytes == size)
        }
        let cache = BlockCache(options: options, source: source)
        let reader = cache.reader(of: key, version: version)
        _ = try reader.bytes(ByteRange(0, 10))
        cache.maintain()
        #expect(reader.residentBytes == size, "before anybody has asked for it again")
        cache.releaseHeld(except: [])
        cache.maintain()
        #expect(reader.residentBytes == 64 << 20)
    }

    /// The files of the cache that this process has open, by their paths.
    private func openFiles() throws -> [String] {
        try Files.names(in: "/proc/self/fd").compactMap { name in
            var buffer = [CChar](repeating: 0, count: 4096)
            let count = readlink("/proc/self/fd/\(name.string)", &buffer, buffer.count - 1)
            guard count > 0 else { return nil }
            let path = String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
            return path.hasPrefix(folder.path) ? path : nil
        }
    }

    /// As long as anybody has a removed file open, its space is not given back.
    @Test func filesThatAreGivenUpAreClosed() throws {
        let options = BlockCache.Options(directory: folder.path, minimumFree: 0)
        let cache = BlockCache(options: options, source: FakeSource())
        for number in 0..<5 {
            let version = ObjectVersion(entityTag: EntityTag(opaque: "v\(number)"), size: 3_000_000)
            let range = ByteRange(0, version.size)
            #expect(try cache.reader(of: ObjectKey("f"), version: version).bytes(range) == expectedBytes(range))
        }
        #expect(try openFiles().count == 5)
        #expect(cache.clear() >= 15_000_000)
        // Of a fetch that has just ended the last step may still be under way.
        for _ in 0..<1000 where try !openFiles().isEmpty { usleep(10_000) }
        #expect(try openFiles().isEmpty)
    }

    @Test func filesThatAnotherProcessGaveUpAreClosed() throws {
        let options = BlockCache.Options(directory: folder.path, minimumFree: 0)
        let cache = BlockCache(options: options, source: FakeSource())
        let versions = (0..<5).map { ObjectVersion(entityTag: EntityTag(opaque: "v\($0)"), size: 3_000_000) }
        let range = ByteRange(0, 3_000_000)
        let reader = cache.reader(of: ObjectKey("f"), version: versions[0])
        #expect(try reader.bytes(range) == expectedBytes(range))
        for version in versions { _ = try cache.reader(of: ObjectKey("f"), version: version).bytes(range) }
        BlockCache(options: options, source: nil).clear()
        #expect(try openFiles().count == 5)
        cache.maintain()
        for _ in 0..<1000 where try openFiles().count > 1 { usleep(10_000) }
        #expect(try openFiles().count == 1)
        #expect(try reader.bytes(range) == expectedBytes(range))
    }

    @Test func onlySoManyFilesAreKeptOpen() throws {
        let options = BlockCache.Options(directory: folder.path, minimumFree: 0)
        let cache = BlockCache(options: options, source: FakeSource())
        for number in 0..<600 {
            let version = ObjectVersion(entityTag: EntityTag(opaque: "v\(number)"), size: 5000)
            _ = try cache.reader(of: ObjectKey("f"), version: version).bytes(ByteRange(0, version.size))
        }
        #expect(try openFiles().count <= 257)
    }
}
