// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Glibc
import Journal
import Platform

/// A directory of its own for a test, removed at the end; in memory where there is such a file system.
final class Scratch: Sendable {
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
