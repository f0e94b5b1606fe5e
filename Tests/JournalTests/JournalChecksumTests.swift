// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Glibc
import Journal
import Platform
import Testing

/// Bytes that wait are compared with what was written before they are sent.
@Suite struct JournalChecksumTests {
    private let fixture: Fixture
    private var journal: Journal { fixture.journal }

    init() throws { fixture = try Fixture() }

    private func generation(_ path: ObjectKey = "a") throws -> Generation {
        try #require(try fixture.row(path).generation)
    }

    /// Whether the bytes of a file are taken for what was written; nil when nobody can tell.
    private func isSound(_ path: ObjectKey = "a") throws -> Bool? {
        let generation = try generation(path)
        guard let check = try journal.check(of: generation) else { return nil }
        let file = try journal.openStaging(generation.id, creating: false)
        if try file.status().size < generation.size { try file.truncate(to: generation.size) }
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(generation.size), alignment: 8)
        defer { bytes.deallocate() }
        do {
            try CheckedReader(file.raw, check).read(into: bytes, at: 0)
            return true
        } catch {
            #expect(check.damagedAt != nil)
            return false
        }
    }

    private func flip(_ offset: Int64, of path: ObjectKey = "a") throws {
        let file = try journal.openStaging(try generation(path).id, creating: false)
        var byte: [UInt8] = [0]
        _ = try byte.withUnsafeMutableBytes { try file.read(into: $0, at: offset) }
        byte[0] ^= 4
        try byte.withUnsafeBytes { try file.write($0, at: offset) }
    }

    @Test func theGroupSyncTakesThemAndOneFlippedBitIsFound() throws {
        try fixture.save("a", "some bytes")
        #expect(try isSound() == nil)
        try journal.synchronizeSealed()
        #expect(try generation().checksums == .complete && isSound() == true)
        try flip(9)
        #expect(try isSound() == false)
    }

    @Test func whatTheSyncHadNoTimeForIsTakenLater() throws {
        try fixture.save("a")
        try fixture.synchronize()
        #expect(try generation().checksums == .pending)
        #expect(try journal.completeChecksums() == false)
        #expect(try generation().checksums == .complete)
        try flip(0)
        #expect(try isSound() == false)
    }

    @Test func aByteThatAppearsInAHoleIsFound() throws {
        let (node, _) = try fixture.write("a", "end", at: 20 << 20)
        let id = try #require(node.generation).id
        var content = ContentMap(size: 0)
        content.write(ByteRange(0, (20 << 20) + 3))
        try journal.seal(node.id, id, content: content, modified: nil)
        // Too much to be looked at by the sync, but for the holes nothing has to be read.
        try journal.synchronizeSealed()
        #expect(try generation().checksums == .pending)
        try journal.completeChecksums()
        #expect(try generation().checksums == .complete && isSound() == true)
        try flip(5 << 20)
        #expect(try isSound() == false)
    }

    @Test func damageBeforeAFileIsOpenedAgainIsFoundAfter() throws {
        try fixture.save("a", "some bytes")
        try journal.synchronizeSealed()
        try flip(2)
        let node = try journal.beginWriting(at: "a", remote: .absent)
        let id = try #require(node.generation).id
        #expect(try #require(node.generation).isReopened && journal.check(of: generation()) == nil)
        var list = try journal.checksums(of: id)
        let content = try fixture.put(node, "more", at: 10)
        list.forget(ByteRange(10, 14))
        try journal.seal(node.id, id, content: content, modified: nil, checksums: list)
        try journal.synchronizeSealed()
        #expect(try generation().doubt == .damaged && !generation().isSendable)
        #expect(try fixture.row("a").schedule.attention == SyncDoubt.attentionAfterDamage)
    }

    @Test func bytesThatAreWrittenOverAreNotMeasuredByTheOldOnes() throws {
        try fixture.save("a", "some bytes")
        try journal.synchronizeSealed()
        let node = try journal.beginWriting(at: "a", remote: .absent)
        let content = try fixture.put(node, "other", at: 2)
        // Whoever knows nothing of the bytes says so by an empty list.
        try journal.seal(node.id, try #require(node.generation).id, content: content, modified: nil)
        #expect(try isSound() == nil)
        try journal.synchronizeSealed()
        #expect(try isSound() == true)
    }

    @Test func aPersonCanTakeDamagedBytesAsTheyAre() throws {
        let node = try fixture.save("a", "some bytes")
        try journal.synchronizeSealed()
        try flip(2)
        try journal.noteDamage(of: generation().id, "look at it")
        #expect(try fixture.row("a").schedule.attention == "look at it" && isSound() == nil)
        #expect(try journal.beginTransfer(of: fixture.row("a"), method: .put) == nil)
        try fixture.recover(boot: "two")
        #expect(try fixture.row("a").schedule.attention == "look at it" && generation().doubt == .damaged)
        try journal.rename(from: "a", to: "b", sourceRemote: .absent, targetRemote: .absent)
        #expect(try fixture.row("b").schedule.attention == SyncDoubt.attentionAfterDamage)
        try journal.retryNow([node.id], answeringAttention: true)
        let transfer = try #require(try journal.beginTransfer(of: fixture.row("b"), method: .put))
        try journal.rewriteAccepted(try #require(transfer.generation))
        #expect(try generation("b").doubt == .none && generation("b").checksums == .complete)
        #expect(try isSound("b") == true)
    }

    @Test func filesOfAnEarlierJournalAreLookedAtOnce() throws {
        try fixture.save("a")
        try fixture.save("unsynced")
        try fixture.damage("UPDATE generation SET is_synced = 1 WHERE id = 1")
        try fixture.damage(OlderJournal.version5)
        let later = try Journal(directory: fixture.scratch.path)
        #expect(try later.generation(generation().id)?.checksums == .pending)
        try later.completeChecksums()
        #expect(try later.generation(generation().id)?.checksums == .complete)
        #expect(try later.node(at: "unsynced")?.generation?.checksums == ChecksumState.none)
    }

    @Test func aRecordThatIsDamagedCondemnsNothing() throws {
        try fixture.save("a", "some bytes")
        try journal.synchronizeSealed()
        try fixture.damage("UPDATE checksum SET sums = zeroblob(length(sums)) WHERE generation > 0")
        #expect(try isSound() == true)
        try fixture.damage("UPDATE checksum SET covered = x'FFFFFFFF' WHERE generation > 0")
        #expect(try isSound() == true)
    }

    @Test func aFileThatGotShorterIsNeverSentAsTheRestOfIt() throws {
        try fixture.save("a", "some bytes")
        try journal.synchronizeSealed()
        try journal.openStaging(generation().id, creating: false).truncate(to: 4)
        try fixture.recover(boot: "two")
        #expect(try fixture.row("a").schedule.attention?.contains("cut short") == true)
    }

    @Test func nothingStaysOfWhatIsGone() throws {
        try fixture.save("a")
        let transfer = try fixture.begin("a")
        try journal.completeChecksums()
        try journal.markCommitting(transfer.id, expectedTag: nil)
        _ = try journal.completeTransfer(transfer.id, version: .tagged("new", 4))
        let released = try journal.releaseGenerations()
        #expect(released.first?.check != nil)
        let database = try Database(path: "\(fixture.scratch.path)/journal.sqlite")
        let left = try database.read { connection throws(DatabaseError) in
            try connection.exists("SELECT 1 FROM checksum")
        }
        #expect(!left)
    }
}

/// The list itself.
@Suite struct ChecksumListTests {
    private let block = ChecksumList.blockSize

    private func bytes(_ count: Int64) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) } }

    private func list(_ parts: [ByteRange], _ bytes: [UInt8], _ number: Int64 = 0) -> ChecksumList {
        var list = ChecksumList()
        list.set(number, parts, bytes.withUnsafeBytes { ChecksumList.checksum(parts, of: number, $0) })
        return list
    }

    @Test func aBlockMatchesItsCoveredBytesOnly() {
        var data = bytes(200_000)
        let parts = [ByteRange(0, 70_000), ByteRange(100_000, 200_000)]
        let list = list(parts, data)
        data[80_000] ^= 1
        #expect(data.withUnsafeBytes { list.matches(0, $0) })
        #expect(!data.withUnsafeBytes { list.isZeroElsewhere(0, $0) })
        data[100_000] ^= 1
        #expect(!data.withUnsafeBytes { list.matches(0, $0) })
        #expect(data.withUnsafeBytes { list.matches(1, $0) }, "it has no checksum")
        #expect(!data.withUnsafeBytes { list.matches(0, UnsafeRawBufferPointer(rebasing: $0[..<150_000])) })
    }

    @Test func theSameBytesElsewhereAreOthers() {
        let data = bytes(4096)
        let first = list([ByteRange(0, 4096)], data)
        let second = list([ByteRange(block, block + 4096)], data, 1)
        #expect(first.checksum(of: 0) != second.checksum(of: 1))
    }

    @Test func aChangeForgetsTheBlocksWhoseBytesItTouches() {
        var list = ChecksumList()
        for number in 0..<4 as Range<Int64> { list.set(number, [ChecksumList.range(of: number)], 7) }
        list.set(4, [ByteRange(4 * block, 4 * block + 10)], 7)
        list.forget(ByteRange(block - 1, 2 * block))
        list.forget(ByteRange(4 * block + 10, 5 * block))
        #expect(list.checksum(of: 0) == nil && list.checksum(of: 1) == nil)
        #expect(list.checksum(of: 2) == 7 && list.checksum(of: 3) == 7)
        #expect(list.checksum(of: 4) == 7, "what is written beside it does not touch it")
        #expect(list.missing(ExtentSet(ByteRange(0, 3 * block))) == [ByteRange(0, 2 * block)])
        list.forget(ByteRange(0, .max))
        #expect(list.covered.isEmpty)
    }
}
