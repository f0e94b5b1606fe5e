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

    /// As a mount in a container does that has a boot_id of its own.
    @Test func aMountThatIsNotSeenToRecoverIsTold() throws {
        let fixture = try FlusherFixture(store: FakeStore())
        defer { fixture.remove() }
        let folder = fixture.journal.directory
        _ = try Journal.recovering(directory: folder, boot: "of another container")
        let client = try fixture.start(recoveryPatience: 0.5)
        #expect(throws: (any Error).self) { try fixture.flush(client) }
        guard case .status(let status) = try client.call(.status) else { throw ControlError.timeout }
        #expect(try #require(status.volumes.first?.error).contains("boot_id"))
        _ = try Journal.recovering(directory: folder)
        try fixture.write("f", [1])
        for _ in 0..<200 where try !fixture.pending().isEmpty { usleep(50_000) }
        #expect(try fixture.pending().isEmpty)
        try fixture.stop(client)
    }
}
