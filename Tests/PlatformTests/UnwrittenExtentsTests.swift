// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Platform
import TestSupport
import Testing

/// Extents that were given to a file by fallocate(2) stand for those that a failed write has left.
@Suite struct UnwrittenExtentsTests {
    /// A file of `size` bytes that are there and not written, but for 5,000 bytes at 100,000; nil where none can be had.
    private func file(_ size: Int64, _ body: (String, FileStatus) throws -> Void) throws {
        let folder = "/var/tmp/moorage-extents-\(getpid())-\(Randomness.hexadecimal(bytes: 6))"
        try Files.makeDirectories(folder)
        let path = "\(folder)/file"
        defer {
            unlink(path)
            rmdir(folder)
        }
        do {
            let file = try FileDescriptor.open(path, O_RDWR | O_CREAT)
            guard posix_fallocate(file.raw, 0, Int(size)) == 0 else { return }
            let count = pwrite(file.raw, [UInt8](repeating: 7, count: 5000), 5000, 100_000)
            #expect(count == 5000)
            try file.synchronize()
        }
        // A file system that does not tell has nothing to be tested.
        let status = try #require(try FileStatus.of(path))
        guard try UnwrittenExtents.find(path, status) else { return }
        try body(path, status)
    }

    @Test(arguments: [3_000_000, 2_097_152, 200_001] as [Int64])
    func whatIsUnwrittenIsWritten(_ size: Int64) throws {
        try file(size) { path, status in
            let before = try Files.read(path, limit: 4 << 20)
            try UnwrittenExtents.writeAll(path, status)
            #expect(try !UnwrittenExtents.find(path, status))
            let after = try Files.read(path, limit: 4 << 20)
            #expect(after.starts(with: before) && after.count - before.count < 4096)
            #expect(after[before.count...].allSatisfy { $0 == 0 })
        }
    }

    @Test func anotherFileOfTheNameIsLeftAlone() throws {
        try file(300_000) { path, status in
            var other = status
            other.inode += 1
            let found = #expect(throws: SystemError.self) { try UnwrittenExtents.find(path, other) }
            let written = #expect(throws: SystemError.self) { try UnwrittenExtents.writeAll(path, other) }
            #expect(found?.code == ESTALE && written?.code == ESTALE)
            let isLeft = try UnwrittenExtents.find(path, status)
            #expect(isLeft)
        }
    }

    /// Which any descriptor of this process that is closed would take.
    @Test func locksOfTheFileStay() throws {
        try file(300_000) { path, status in
            let holder = try FileDescriptor.open(path, O_RDWR)
            var range = flock()
            range.l_type = Int16(F_WRLCK)
            let result = fcntl(holder.raw, F_SETLK, &range)
            #expect(result == 0)
            let isHeld = { () throws -> Bool in
                let locks = String(decoding: try Files.read("/proc/locks", limit: 1 << 20), as: UTF8.self)
                return locks.split(separator: "\n").contains { lock in
                    lock.contains(" \(getpid()) ") && lock.contains(":\(status.inode) ")
                }
            }
            #expect(try isHeld())
            try UnwrittenExtents.writeAll(path, status)
            #expect(try !UnwrittenExtents.find(path, status))
            #expect(try isHeld())
            try FileDescriptor.open(path, O_RDONLY).close()
            #expect(try !isHeld(), "the test proves nothing")
        }
    }
}
