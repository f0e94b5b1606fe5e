// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Glibc
import Journal
import Platform
import TestSupport
import Testing

/// A sound journal on a disk that fails to read it now.
@Suite struct JournalUnreadableTests {
    private let fixture: Fixture

    init() throws { fixture = try Fixture() }

    /// Any one read fails, as a disk's or for want of memory: the recovery ends with that, or has not needed it, and the
    /// next one finds everything.
    @Test(arguments: [EIO, ENOMEM, EUCLEAN]) func nothingIsConcludedFromWhatCannotBeRead(_ code: Int32) throws {
        for index in 0..<8 { try fixture.save(ObjectKey("file-\(index)"), "data \(index)") }
        try fixture.synchronize()
        let node = try fixture.journal.beginWriting(at: "file-7", remote: .absent)
        _ = try fixture.put(node, "more")
        let before = try fixture.scratch.copy()
        var number = 0
        while true {
            let scratch = try before.copy()
            let failures = try recover(scratch, failing: number, code)
            if failures == 0 { break }
            let journal = try Journal.recovering(directory: scratch.path, boot: "one").journal
            let rows = try journal.descendants(of: .root)
            #expect(rows.count == 8 && rows.allSatisfy { $0.schedule.attention == nil }, "read \(number)")
            #expect(try Files.names(in: "\(scratch.path)/quarantine").isEmpty, "read \(number)")
            #expect(try Files.names(in: "\(scratch.path)/staging").count == 8, "read \(number)")
            number += 1
        }
        #expect(number > 10)
    }

    /// Of what was synced it says nothing then; the content is in another column.
    @Test func aRecordOfASyncThatMakesNoSenseCostsNothing() throws {
        for name in ["a", "b"] { try fixture.save(ObjectKey(name), "data \(name)") }
        try fixture.synchronize()
        try fixture.damage("UPDATE generation SET synced_extents = x'ff' WHERE id = 1")
        for boot in ["one", "two"] {
            try fixture.recover(boot: boot)
            #expect(try fixture.paths() == ["a", "b"] && fixture.quarantined().isEmpty && fixture.staging() == 2)
        }
    }

    /// Recovers while one read fails; returns how many have.
    private func recover(_ scratch: Scratch, failing number: Int, _ code: Int32) throws -> Int {
        let disk = try DatabaseDisk(folder: scratch.path)
        defer { disk.end() }
        let count = Monitor(0)
        disk.fail { call in
            guard call.kind == .read else { return 0 }
            return count.update { count in
                count += 1
                return count == number + 1 ? code : 0
            }
        }
        do throws(JournalError) {
            _ = try Journal.recovering(directory: scratch.path, boot: "one")
        } catch {
            #expect(error.kind == .io, "\(error)")
        }
        return disk.failures
    }
}
