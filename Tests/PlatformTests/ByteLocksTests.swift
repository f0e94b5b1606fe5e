// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Platform
import Testing

@Suite struct ByteLocksTests {
    private func withFile(_ body: (String) throws -> Void) throws {
        let path = "/tmp/moorage-locks-\(getpid())-\(Randomness.hexadecimal(bytes: 6))"
        defer { _ = unlink(path) }
        try body(path)
    }

    @Test func aByteIsTakenUntilItIsLetGo() throws {
        try withFile { path in
            #expect(try !ByteLocks.isTaken(7, at: path), "there is no file")
            let locks = try ByteLocks(at: path)
            let last = ByteLocks.places.upperBound
            for place in [7, last] {
                try locks.take(place)
                #expect(try ByteLocks.isTaken(place, at: path))
            }
            #expect(try !ByteLocks.isTaken(6, at: path) && !ByteLocks.isTaken(8, at: path))
            locks.release(7)
            #expect(try !ByteLocks.isTaken(7, at: path) && ByteLocks.isTaken(last, at: path))
        }
    }

    @Test func severalTakeTheSameByte() throws {
        try withFile { path in
            let first = try ByteLocks(at: path)
            do {
                let second = try ByteLocks(at: path)
                try first.take(1)
                try second.take(1)
                first.release(1)
                #expect(try ByteLocks.isTaken(1, at: path))
            }
            #expect(try !ByteLocks.isTaken(1, at: path), "whoever is gone has nothing")
        }
    }

    @Test func whatCannotBeLookedAtIsAnError() throws {
        try withFile { path in
            try #require(symlink("/dev/null", path) == 0)
            #expect(throws: SystemError.self) { try ByteLocks(at: path) }
            #expect(throws: SystemError.self) { try ByteLocks.isTaken(0, at: path) }
        }
    }
}
