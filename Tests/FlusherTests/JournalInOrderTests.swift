// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Control
import Glibc
import Journal
import Platform
import Testing

/// A flusher takes up a volume when its journal is in order, and not before.
@Suite struct JournalInOrderTests {
    /// A mount that finds the journal damaged sets it aside, whoever has it open, and saves its rows one by one.
    @Test func aJournalThatAMountMadeAnewIsTakenUpOnceItIsInOrder() throws {
        let store = FakeStore()
        let fixture = try FlusherFixture(store: store)
        defer { fixture.remove() }
        let client = try fixture.start()
        try fixture.write("before", [1])
        #expect(try fixture.flush(client).isEmpty)
        let folder = fixture.journal.directory
        for name in ["journal.sqlite-shm", "journal.sqlite-wal", "journal.sqlite"]
        where try FileStatus.of("\(folder)/\(name)") != nil {
            try Files.rename("\(folder)/\(name)", to: "\(folder)/quarantine/\(name)")
        }
        let half = try Journal(directory: folder)
        let attributes = FileAttributes(mode: 0o040755, uid: 1, gid: 2, modified: Timestamp(seconds: 5))
        _ = try half.createDirectory(at: ObjectKey("after"), attributes: attributes, remote: .absent)
        for _ in 0..<20 {
            _ = try client.call(.wake(volume: nil))
            usleep(50_000)
        }
        #expect(store.objects[ObjectKey("after/")] == nil, "the rows that keep it may not be saved yet")
        _ = try Journal.recovering(directory: folder)
        for _ in 0..<200 where store.objects[ObjectKey("after/")] == nil {
            _ = try client.call(.wake(volume: nil))
            usleep(50_000)
        }
        #expect(store.objects[ObjectKey("after/")] != nil)
        try fixture.stop(client)
    }

    /// A container may have a boot_id of its own.
    @Test func aMountOfAnotherBootIsKnownByItsLock() throws {
        let fixture = try FlusherFixture(store: FakeStore())
        defer { fixture.remove() }
        let (folder, boot) = (fixture.journal.directory, "of another container")
        _ = try Journal.recovering(directory: folder, boot: boot, holder: "of a mount before")
        let client = try fixture.start()
        #expect(throws: (any Error).self) { try fixture.flush(client, timeout: 1) }
        guard case .status(let status) = try client.call(.status) else { throw ControlError.timeout }
        #expect(try #require(status.volumes.first?.error).contains("in order"))
        let token = try #require(FileLock.holder(of: "\(folder)/mount.lock").token)
        _ = try Journal.recovering(directory: folder, boot: boot, holder: token)
        try fixture.write("f", [1])
        #expect(try fixture.flush(client).isEmpty && fixture.pending().isEmpty)
        guard case .status(let after) = try client.call(.status) else { throw ControlError.timeout }
        #expect(after.volumes.map(\.error) == [nil])
        try fixture.stop(client)
    }
}
