// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import CShims
import Glibc
import Platform
import Testing

@Suite struct FilesTests {
    /// Runs a test in a folder of its own, removed afterwards.
    private func inFolder(_ body: (String) throws -> Void) throws {
        let folder = "/tmp/moorage-platform-\(getpid())-\(Randomness.hexadecimal(bytes: 6))"
        try Files.makeDirectories(folder)
        defer {
            for name in (try? Files.names(in: folder)) ?? [] { _ = unlink("\(folder)/\(name)") }
            _ = rmdir(folder)
        }
        try body(folder)
    }

    @Test func atomicWriteReplacesAndIsPrivate() throws {
        try inFolder { folder in
            try Files.writeAtomically("\(folder)/a", Array("one".utf8))
            try Files.writeAtomically("\(folder)/a", Array("two".utf8))
            #expect(try Files.read("\(folder)/a") == Array("two".utf8))
            #expect(try FileStatus.of("\(folder)/a")?.mode == S_IFREG | 0o600)
            #expect(try Files.names(in: folder) == [ObjectKey("a")], "no temporary file is left")
        }
    }

    @Test func whatCannotBePutInPlaceIsNotLeftBeside() throws {
        try inFolder { folder in
            // Nothing but a folder may take the place of a folder.
            try #require(mkdir("\(folder)/a", 0o700) == 0)
            defer { rmdir("\(folder)/a") }
            #expect(throws: SystemError.self) {
                try Files.writeAtomically("\(folder)/a", Array("one".utf8))
            }
            #expect(try Files.names(in: folder) == [ObjectKey("a")])
        }
    }

    @Test func onlyWhatItsOwnWritersLeftIsAbandoned() throws {
        try inFolder { folder in
            let others = [
                "pins", "pins.lock", "pins.progress.77.0123abcd~", "pins.77~", "pins.x.0123abcd~", "other.7.0123abcd~",
            ]
            for name in others + ["pins.77.0123abcd~", "pins.8.89ABcdef~"] {
                try Files.writeAtomically("\(folder)/\(name)", [])
            }
            try Files.removeAbandoned(of: "\(folder)/pins")
            #expect(Set(try Files.names(in: folder).map(\.string)) == Set(others))
        }
    }

    @Test func readingIsBounded() throws {
        try inFolder { folder in
            try Files.writeAtomically("\(folder)/a", [UInt8](repeating: 1, count: 100))
            #expect(throws: SystemError.self) { try Files.read("\(folder)/a", limit: 99) }
        }
    }

    private func isHeld(_ lock: borrowing FileLock?) -> Bool {
        switch lock {
        case .some: true
        case .none: false
        }
    }

    private func token(_ lock: borrowing FileLock?) -> String? {
        switch lock {
        case .some(let lock): lock.token
        case .none: nil
        }
    }

    @Test func aSecondLockIsRefusedUntilTheFirstGoes() throws {
        try inFolder { folder in
            let path = "\(folder)/lock"
            do {
                let first = try FileLock(acquiring: path)
                let second = try FileLock(acquiring: path)
                let firstHeld = isHeld(first)
                #expect(firstHeld)
                let secondHeld = isHeld(second)
                #expect(!secondHeld)
                #expect(FileLock.holder(of: path).isHeld)
                #expect(FileLock.holder(of: path).pid == getpid())
            }
            #expect(!FileLock.holder(of: path).isHeld)
            let third = try FileLock(acquiring: path)
            let thirdHeld = isHeld(third)
            #expect(thirdHeld)
        }
    }

    @Test func whoHoldsALockIsKnownByItsTokenIfItIsToTell() throws {
        try inFolder { folder in
            let path = "\(folder)/lock"
            do {
                let first = try FileLock(acquiring: path, tellsToken: true)
                let firstToken = token(first)
                #expect(firstToken?.count == 16 && FileLock.holder(of: path).token == firstToken)
                #expect(FileLock.holder(of: path).pid == getpid())
                let second = try FileLock(acquiring: path, tellsToken: true)
                let secondHeld = isHeld(second)
                #expect(!secondHeld && FileLock.holder(of: path).token == firstToken)
            }
            let next = try FileLock(acquiring: path)
            let nextToken = token(next)
            #expect(nextToken == nil && FileLock.holder(of: path).isHeld && FileLock.holder(of: path).token == nil)
        }
    }

    /// It has the lock, and has not come to say so, or the disk is full.
    @Test func whoHoldsALockIsNotTakenForWhoHeldItBefore() throws {
        try inFolder { folder in
            let path = "\(folder)/lock"
            try Files.writeAtomically(path, Array("77 before\n".utf8))
            let file = try FileDescriptor.open(path, O_RDWR)
            try #require(moorage_ofd_lock(file.raw, 1) == 0)
            #expect(FileLock.holder(of: path).isHeld && FileLock.holder(of: path).token == nil)
        }
    }

    @Test func missingFilesAreToldFromErrors() throws {
        #expect(try FileStatus.of("/nonexistent/file") == nil)
        #expect {
            _ = try FileDescriptor.open("/nonexistent/file", O_RDONLY)
        } throws: { error in
            (error as? SystemError)?.code == ENOENT
        }
    }

    @Test func positionedReadsStopAtTheEnd() throws {
        try inFolder { folder in
            let file = try FileDescriptor.open("\(folder)/a", O_RDWR | O_CREAT)
            try file.write(Array("hello".utf8))
            var buffer = [UInt8](repeating: 0, count: 10)
            let count = try buffer.withUnsafeMutableBytes { try file.read(into: $0, at: 2) }
            #expect(Array(buffer[..<count]) == Array("llo".utf8))
        }
    }
}
