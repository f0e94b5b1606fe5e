// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import ObjectStore
import Platform
import TestSupport
import Testing

@testable import Stores

/// Bytes that differ everywhere, many of them.
private func bytes(_ mebibytes: Int) -> [UInt8] {
    let tile = pattern(1 << 20)
    return (0..<mebibytes).flatMap { number in [UInt8(truncatingIfNeeded: number)] + tile.dropFirst() }
}

@Suite struct OneAnswerTests {
    private static let medium = bytes(12)
    private static let large = bytes(48)
    private let key = OneAnswerServer.key

    // MARK: Nobody wants it any more

    @Test func anAnswerEndsWhenTheLastReaderHasClosedTheFile() throws {
        let server = try OneAnswerServer(Self.medium)
        server.state.update { $0.limit = 2 << 20 }
        let version = try server.version()
        server.store.opened(key, version: version)
        server.store.opened(key, version: version)
        #expect(try server.read(version, 1000, 5000) == Array(Self.medium[1000..<6000]))
        server.store.closed(key, version: version)
        // Longer than an answer goes on that nobody wants.
        usleep(2_000_000)
        #expect(try server.read(version, 900_000, 5000) == Array(Self.medium[900_000..<905_000]))
        #expect(server.answers == 1 && server.state.inspect { $0.left } == 0)
        server.store.closed(key, version: version)
        #expect(server.waitForLeaving())
    }

    @Test func aReadThatIsGivenUpEndsAnAnswerThatNobodyHasOpen() throws {
        let server = try OneAnswerServer(Self.medium)
        server.state.update { $0.limit = 2 << 20 }
        let (sink, fetch) = server.fetch(try server.version(), ByteRange(0, 6 << 20))
        _ = server.state.wait(timeout: 20) { $0.sent.first ?? 0 >= 2 << 20 ? true : nil }
        fetch.cancel()
        #expect(cause { _ = try sink.wait() } == .cancelled)
        #expect(server.waitForLeaving())
    }

    /// Of what was read before, everything has to come again as it was.
    @Test(arguments: [true, false])
    func whatWasGivenUpIsTakenUpAgain(hasDisk: Bool) throws {
        let server = try OneAnswerServer(Self.medium, hasDisk: hasDisk)
        server.state.update { $0.limit = (2 << 20) + 777 }
        let version = try server.version()
        server.store.opened(key, version: version)
        #expect(try server.read(version, 0, 2 << 20) == Array(Self.medium[..<(2 << 20)]))
        server.store.closed(key, version: version)
        try #require(server.waitForLeaving())
        server.state.update { $0.limit = .max }
        server.store.opened(key, version: version)
        #expect(try server.read(version, 11 << 20, 1 << 20) == Array(Self.medium[(11 << 20)...]))
        #expect(try server.read(version, 1 << 20, 100) == Array(Self.medium[(1 << 20)..<(1 << 20) + 100]))
        #expect(server.answers == 2)
        server.store.closed(key, version: version)
    }

    @Test(arguments: [true, false], [100, (2 << 20) + 500])
    func anotherVersionIsNeverTakenForTheSame(hasDisk: Bool, place: Int) throws {
        let server = try OneAnswerServer(Self.medium, hasDisk: hasDisk)
        server.state.update { $0.limit = (2 << 20) + 777 }
        let version = try server.version()
        server.store.opened(key, version: version)
        #expect(try server.read(version, 0, (2 << 20) + 777) == Array(Self.medium[..<((2 << 20) + 777)]))
        server.store.closed(key, version: version)
        try #require(server.waitForLeaving())
        // With the same size, tag and time.
        server.state.update { state in
            state.limit = .max
            state.content[place] ^= 1
        }
        server.store.opened(key, version: version)
        #expect(cause { _ = try server.read(version, 3 << 20, 100) } == .preconditionFailed)
        #expect(cause { _ = try server.read(version, 0, 100) } == .preconditionFailed)
        server.store.closed(key, version: version)
        #expect(try server.version() != version)
    }

    /// Nothing that was not compared to its end is kept.
    @Test func whatComesAgainAndBreaksOffBeforeItIsComparedIsNotShown() throws {
        let server = try OneAnswerServer(Self.large, hasDisk: false)
        let version = try server.version()
        server.store.opened(key, version: version)
        for lower in stride(from: 0, to: 20 << 20, by: 1 << 20) {
            #expect(try server.read(version, lower, 1 << 20) == Array(Self.large[lower..<lower + (1 << 20)]))
        }
        // With the same size, tag and time; the first bytes are not in memory any more.
        server.state.update { state in
            state.breaks = [30_000, 30_000, 30_000]
            state.content[100] ^= 1
        }
        #expect(cause { _ = try server.read(version, 0, 1000) } == .temporary)
        #expect(cause { _ = try server.read(version, 0, 1000) } == .preconditionFailed)
        server.store.closed(key, version: version)
    }

    @Test func anAnswerThatBreaksOffGoesOnWithTheNext() throws {
        let server = try OneAnswerServer(Self.medium)
        server.state.update { $0.breaks = [5 << 20, 3_000_001, 8_000_003] }
        let version = try server.version()
        #expect(try server.read(version, 0, 12 << 20) == Self.medium)
        #expect(server.answers == 4)
        server.state.update { $0.breaks = [0, 0, 0] }
        server.store.forget(key)
        let next = try server.version()
        #expect(cause { _ = try server.read(next, 0, 100) } == .temporary)
        // The version is the same when the server is well again.
        #expect(try server.read(next, 0, 100) == Array(Self.medium[..<100]))
    }

    // MARK: Without a disk

    @Test func aFileIsReadAsAWholeFromMemory() throws {
        let server = try OneAnswerServer(Self.medium, hasDisk: false)
        let version = try server.version()
        server.store.opened(key, version: version)
        for lower in [5_000_000, 0, 12_000_000, 300_000] {
            #expect(try server.read(version, lower, 10_000) == Array(Self.medium[lower..<lower + 10_000]))
        }
        #expect(server.answers == 1)
        server.store.closed(key, version: version)
    }

    @Test func aLongFileIsReadForwardInOneAnswerThatWaits() throws {
        // Half of the memory, and what the sockets of both sides take, which may be much (tcp_rmem, tcp(7)).
        let most = (15 << 20) + Self.socketBuffers
        let content = bytes(48 + (most >> 20))
        let server = try OneAnswerServer(content, hasDisk: false)
        let version = try server.version()
        server.store.opened(key, version: version)
        #expect(try server.read(version, 0, 1000) == Array(content[..<1000]))
        for lower in stride(from: 0, to: 32 << 20, by: 1 << 20) {
            // What is asked for a little later than what comes behind it, as the kernel does.
            let second = try server.read(version, lower + (512 << 10), 512 << 10)
            let first = try server.read(version, lower, 512 << 10)
            #expect(first + second == Array(content[lower..<lower + (1 << 20)]))
            let sent = server.state.inspect { $0.sent[0] }
            #expect(sent < lower + most)
        }
        #expect(server.answers == 1)
        #expect(try server.read(version, 7, 1000) == Array(content[7..<1007]))
        #expect(server.answers == 2)
        server.store.closed(key, version: version)
        #expect(server.waitForLeaving())
    }

    /// How many bytes the kernel holds of one connection at most.
    private static var socketBuffers: Int {
        ["tcp_rmem", "tcp_wmem"].reduce(0) { sum, name in
            let text = (try? Files.read("/proc/sys/net/ipv4/\(name)")).map { String(decoding: $0, as: UTF8.self) } ?? ""
            return sum + (text.split(whereSeparator: \.isWhitespace).last.flatMap { Int($0) } ?? 6 << 20)
        }
    }

    /// Each keeps a connection that others may need.
    @Test func fewAnswersAreHeldForThoseWhoMayReadOn() throws {
        let server = try OneAnswerServer(Self.large, hasDisk: false)
        let keys = (0..<5).map { ObjectKey("f\($0)") }
        var versions: [ObjectVersion] = []
        for key in keys {
            let version = try server.store.status(of: key, cancellation: nil).version
            versions.append(version)
            server.store.opened(key, version: version)
            #expect(try server.read(version, 0, 1000, key) == Array(Self.large[..<1000]))
        }
        #expect(server.waitForLeaving())
        #expect(server.state.inspect { $0.left } == 1)
        for (key, version) in zip(keys, versions) {
            #expect(try server.read(version, 30 << 20, 1000, key) == Array(Self.large[(30 << 20)..<(30 << 20) + 1000]))
            server.store.closed(key, version: version)
        }
    }

    @Test func anyReadsOfALongFileGetItsBytes() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let server = try OneAnswerServer(Self.large, hasDisk: false)
        let version = try server.version()
        server.store.opened(key, version: version)
        for _ in 0..<8 {
            let lower = Int.random(in: 0..<Self.large.count - 1, using: &random)
            let ranges = (0..<3).map { number in
                let start = (lower + number * Int.random(in: 0...20_000_000, using: &random)) % (Self.large.count - 1)
                let count = Int.random(in: 1...1_000_000, using: &random)
                return ByteRange(Int64(start), Int64(min(Self.large.count, start + count)))
            }
            let fetches = ranges.map { server.fetch(version, $0) }
            for (range, (sink, fetch)) in zip(ranges, fetches) {
                let found = try withExtendedLifetime(fetch) { try sink.wait() }
                #expect(found == Array(Self.large[Int(range.lower)..<Int(range.upper)]), "\(range)")
            }
        }
        server.store.closed(key, version: version)
    }

    @Test func peopleAreToldWhyAFileIsInMemoryAndWhenItIsNotAnyMore() throws {
        let told = Monitor<[SystemError?]>([])
        let server = try OneAnswerServer(Self.medium, hasDisk: false)
        server.store.tellOfDisk { error in told.update { $0.append(error) } }
        let version = try server.version()
        server.store.opened(key, version: version)
        _ = try server.read(version, 0, 10)
        #expect(told.inspect { $0.map { $0?.code } } == [ENOTDIR])
        server.store.closed(key, version: version)
        #expect(told.wait(timeout: 20) { $0.count == 2 ? $0.last : nil } == .some(.none))
    }
}

@Suite struct AnswerPlanTests {
    private static let size: Int64 = 100 << 20

    private func plan(_ change: (inout AnswerPlan) -> Void) -> AnswerPlan.Step {
        var plan = AnswerPlan(size: Self.size, isOpen: true, wantedEnd: 10 << 20, room: 8 << 20)
        change(&plan)
        return plan.step
    }

    @Test func aFileIsAskedForWhenSomebodyWaits() {
        let waiting = [AnswerPlan.Waiting(offset: 500, hasPassed: false), .init(offset: 200, hasPassed: false)]
        #expect(plan { _ in } == .rest)
        #expect(plan { $0.waiting = waiting } == .ask(keepingFrom: 0))
        #expect(plan { ($0.waiting, $0.isOnDisk) = (waiting, false) } == .ask(keepingFrom: 200))
        #expect(plan { ($0.waiting, $0.position) = (waiting, 0) } == .goOn)
    }

    /// Those ahead have come first: the answer gets to them before it begins again for who is behind.
    @Test func theOneWhoCameFirstDecidesWhetherItBeginsAgain() {
        let behind = AnswerPlan.Waiting(offset: 200, hasPassed: true)
        let ahead = AnswerPlan.Waiting(offset: 9 << 20, hasPassed: false)
        let situation = { (waiting: [AnswerPlan.Waiting]) in
            plan { ($0.position, $0.waiting, $0.isOnDisk) = (5 << 20, waiting, false) }
        }
        #expect(situation([ahead, behind]) == .goOn)
        #expect(situation([behind, ahead]) == .ask(keepingFrom: 200))
    }

    @Test func withoutADiskTheServerIsHeldWhereNobodyReadsOn() {
        for (position, step) in [(17 << 20, .goOn), (18 << 20, .hold)] as [(Int64, AnswerPlan.Step)] {
            #expect(plan { ($0.position, $0.isOnDisk) = (position, false) } == step)
            #expect(plan { $0.position = position } == .goOn)
        }
    }

    @Test func whatNobodyHasOpenIsLetGoUnlessItHasNearlyCome() {
        #expect(plan { ($0.position, $0.isOpen) = (5 << 20, false) } == .letGo)
        #expect(plan { ($0.position, $0.isOpen) = (Self.size - 1000, false) } == .goOn)
        #expect(plan { $0.isOpen = false } == .rest)
        #expect(plan { ($0.isOpen, $0.isOnDisk) = (false, false) } == .letGo)
        #expect(plan { ($0.position, $0.isOpen, $0.isOnDisk) = (Self.size - 1000, false, false) } == .letGo)
        let waiting = [AnswerPlan.Waiting(offset: 9 << 20, hasPassed: false)]
        #expect(plan { ($0.position, $0.isOpen, $0.waiting) = (5 << 20, false, waiting) } == .goOn)
    }
}

@Suite struct AnswerDigestTests {
    @Test func anAnswerIsComparedUpToWhatIsKnownAndExtendsIt() {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let content = bytes(1)
        let digest = AnswerDigest()
        for _ in 0..<12 {
            digest.begin()
            let known = digest.known
            let end = Int.random(in: 0...content.count, using: &random)
            #expect(take(content[..<end], digest, &random))
            #expect(digest.position == end && digest.known == max(known, Int64(end)))
            #expect(digest.verified == (Int64(end) >= known ? Int64(end) : Int64(end) / 65_536 * 65_536))
        }
        guard digest.known > 0 else { return }
        digest.begin()
        var other = content
        other[Int.random(in: 0..<Int(digest.known), using: &random)] ^= 0x10
        #expect(!take(other[...], digest, &random))
    }

    /// Hands over in pieces of any length.
    private func take(_ bytes: ArraySlice<UInt8>, _ digest: AnswerDigest, _ random: inout SeededGenerator) -> Bool {
        var rest = bytes
        while !rest.isEmpty {
            let piece = rest.prefix(Int.random(in: 1...150_000, using: &random))
            guard piece.withUnsafeBytes({ digest.take($0) }) else { return false }
            rest = rest.dropFirst(piece.count)
        }
        return true
    }
}
