// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Platform
import Testing

@Suite struct LogFileTests {
    private func inFolder(_ body: (String) throws -> Void) throws {
        let folder = "/tmp/moorage-log-\(getpid())-\(Randomness.hexadecimal(bytes: 6))"
        try Files.makeDirectories(folder)
        defer {
            for name in (try? Files.names(in: folder)) ?? [] { _ = unlink("\(folder)/\(name)") }
            _ = rmdir(folder)
        }
        try body(folder)
    }

    @Test func aLongLogGoesOnInANewFileAndOneOldOneIsKept() throws {
        try inFolder { folder in
            let log = LogFile("\(folder)/log", limit: 100)
            let descriptor = try log.open()
            for round in 0..<10 {
                try descriptor.write([UInt8](repeating: UInt8(round), count: 40))
                log.renew(descriptor.raw)
            }
            #expect(Set(try Files.names(in: folder)) == [ObjectKey("log"), ObjectKey("log.1")])
            let old = try Files.read("\(folder)/log.1")
            #expect(old == [6, 7, 8].flatMap { [UInt8](repeating: $0, count: 40) }, "the newest old file, complete")
            #expect(try Files.read("\(folder)/log") == [UInt8](repeating: 9, count: 40))
            #expect(try FileStatus.of("\(folder)/log")?.mode == S_IFREG | 0o600)
        }
    }

    @Test func aFileThatSomebodyElseChoseStays() throws {
        try inFolder { folder in
            let log = LogFile("\(folder)/log", limit: 100)
            _ = try log.open()
            let other = try FileDescriptor.open("\(folder)/other", O_WRONLY | O_CREAT | O_APPEND)
            try other.write([UInt8](repeating: 1, count: 200))
            log.renew(other.raw)
            #expect(Set(try Files.names(in: folder)) == [ObjectKey("log"), ObjectKey("other")])
            try other.write([2])
            #expect(try Files.read("\(folder)/other").count == 201)
        }
    }
}
