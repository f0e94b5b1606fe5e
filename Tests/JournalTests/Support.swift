// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Glibc
import Journal
import Platform

/// A directory of its own for a test, removed at the end; in memory where there is such a file system.
final class Scratch {
    let path: String

    init() throws {
        let root = (try? FileStatus.of("/dev/shm")) == nil ? "/tmp" : "/dev/shm"
        path = "\(root)/moorage-journal-\(Randomness.hexadecimal(bytes: 8))"
        try Files.makeDirectories(path)
    }

    deinit { Self.remove(path) }

    static func remove(_ path: String) {
        if let status = try? FileStatus.of(path), status.isDirectory {
            for name in (try? Files.names(in: path)) ?? [] { remove("\(path)/\(name)") }
            _ = rmdir(path)
        } else {
            _ = unlink(path)
        }
    }

    /// Copies the directory as it is, as a crash would leave it.
    func copy() throws -> Scratch {
        let other = try Scratch()
        try Self.copy(path, other.path)
        return other
    }

    private static func copy(_ from: String, _ to: String) throws {
        try Files.makeDirectories(to)
        for name in try Files.names(in: from) {
            let source = "\(from)/\(name)"
            if try FileStatus.of(source)?.isDirectory == true {
                try copy(source, "\(to)/\(name)")
            } else {
                let file = try FileDescriptor.open("\(to)/\(name)", O_WRONLY | O_CREAT | O_TRUNC)
                try file.write(try Files.read(source, limit: 1 << 28))
            }
        }
    }
}

/// Random numbers that a seed repeats (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }

    mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &self) }

    mutating func chance(_ percent: Int) -> Bool { below(100) < percent }

    mutating func pick<Element>(_ elements: [Element]) -> Element? { elements.randomElement(using: &self) }
}

extension ObjectKey: ExpressibleByStringLiteral {
    package init(stringLiteral value: String) { self.init(value) }
}

extension FileAttributes {
    static func file(_ permissions: UInt32 = 0o644, at seconds: Int64 = 1) -> FileAttributes {
        FileAttributes(mode: regularType | permissions, uid: 1000, gid: 1000, modified: Timestamp(seconds: seconds))
    }

    static func directory(_ permissions: UInt32 = 0o755) -> FileAttributes {
        FileAttributes(mode: directoryType | permissions, uid: 1000, gid: 1000, modified: Timestamp(seconds: 1))
    }

    static let link = FileAttributes(
        mode: symbolicLinkType | 0o777,
        uid: 1000,
        gid: 1000,
        modified: Timestamp(seconds: 1)
    )
}

extension ObjectVersion {
    static func tagged(_ tag: String, _ size: Int64) -> ObjectVersion {
        ObjectVersion(entityTag: EntityTag(opaque: tag), size: size)
    }
}

struct Failure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
