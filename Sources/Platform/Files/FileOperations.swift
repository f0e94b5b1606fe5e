// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc

/// Calls on paths, each with its errno as a typed error.
package enum Files {
    /// Creates a folder and its missing parents with `mode`; existing ones are left alone.
    package static func makeDirectories(_ path: String, mode: UInt32 = 0o700) throws(SystemError) {
        if let status = try FileStatus.of(path) {
            if status.isDirectory || status.isSymbolicLink { return }
            throw SystemError.make(ENOTDIR, "mkdir", path)
        }
        if let slash = path.lastIndex(of: "/"), slash != path.startIndex {
            try makeDirectories(String(path[..<slash]), mode: mode)
        }
        if mkdir(path, mode) != 0, errno != EEXIST { throw SystemError.last("mkdir", path) }
    }

    /// Makes the names in a folder durable (fsync(2) on the folder).
    package static func synchronizeDirectory(_ path: String) throws(SystemError) {
        let folder = try FileDescriptor.open(path, O_RDONLY | O_DIRECTORY)
        try folder.synchronize()
    }

    /// rename(2), then fsync of the folder when `durable`.
    package static func rename(_ old: String, to new: String, durable: Bool = false) throws(SystemError) {
        if Glibc.rename(old, new) != 0 { throw SystemError.last("rename", new) }
        if durable { try synchronizeDirectory(parent(of: new)) }
    }

    /// link(2): another name for a file.
    package static func link(_ old: String, to new: String) throws(SystemError) {
        if Glibc.link(old, new) != 0 { throw SystemError.last("link", new) }
    }

    /// unlink(2); a missing file is not an error.
    package static func removeIfPresent(_ path: String) throws(SystemError) {
        if unlink(path) != 0, errno != ENOENT { throw SystemError.last("unlink", path) }
    }

    /// rmdir(2).
    package static func removeDirectory(_ path: String) throws(SystemError) {
        if rmdir(path) != 0 { throw SystemError.last("rmdir", path) }
    }

    /// The names in a folder without `.` and `..`, unsorted, as bytes.
    package static func names(in path: String) throws(SystemError) -> [ObjectKey] {
        guard let stream = opendir(path) else { throw SystemError.last("opendir", path) }
        defer { closedir(stream) }
        var names: [ObjectKey] = []
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                if errno != 0 { throw SystemError.last("readdir", path) }
                return names
            }
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: UInt8.self, capacity: 256) { bytes in
                    ObjectKey(
                        UnsafeRawBufferPointer(start: bytes, count: strlen(UnsafePointer<CChar>(OpaquePointer(bytes))))
                    )
                }
            }
            if name.bytes != [0x2E], name.bytes != [0x2E, 0x2E] { names.append(name) }
        }
    }

    /// The whole content of a file, refused above `limit` bytes (EFBIG).
    package static func read(_ path: String, limit: Int = 1 << 20) throws(SystemError) -> [UInt8] {
        let file = try FileDescriptor.open(path, O_RDONLY)
        var result: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count: Int
            do {
                count = try chunk.withUnsafeMutableBytes { try file.readSome(into: $0) }
            } catch let error as SystemError {
                throw error
            } catch {
                throw SystemError.make(EIO, "read", path)
            }
            if count == 0 { return result }
            result += chunk[..<count]
            if result.count > limit { throw SystemError.make(EFBIG, "read", path) }
        }
    }

    /// Replaces a file's content so that it is, after any crash, wholly the old or wholly the new one.
    package static func writeAtomically(_ path: String, _ content: [UInt8], mode: UInt32 = 0o600) throws(SystemError) {
        let temporary = "\(path).\(getpid()).\(Randomness.hexadecimal(bytes: 4))~"
        do {
            let file = try FileDescriptor.open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: mode)
            try file.write(content)
            try file.synchronize()
            try rename(temporary, to: path, durable: true)
        } catch {
            _ = unlink(temporary)
            throw error
        }
    }

    /// Deletes what writers of `path` left that were killed in ``writeAtomically(_:_:mode:)``; nobody may be in one now.
    package static func removeAbandoned(of path: String) throws(SystemError) {
        let folder = parent(of: path)
        let prefix = Array(path.utf8.dropFirst(folder.utf8.count + 1)) + [0x2E]
        for name in try names(in: folder) where name.bytes.starts(with: prefix) {
            guard isTemporary(name.bytes.dropFirst(prefix.count)) else { continue }
            try removeIfPresent("\(folder)/\(name.string)")
        }
    }

    /// Whether a name goes on behind its point as ``writeAtomically(_:_:mode:)`` makes them: that of a file whose name is
    /// longer may be being written.
    private static func isTemporary(_ rest: ArraySlice<UInt8>) -> Bool {
        let parts = rest.dropLast().split(separator: 0x2E, omittingEmptySubsequences: false)
        guard rest.last == 0x7E, parts.count == 2, parts[1].count == 8 else { return false }
        return !parts[0].isEmpty && parts[0].allSatisfy { (0x30...0x39).contains($0) }
    }

    /// The free space a user may take on the disk that holds `path`, in bytes (statvfs(3)).
    package static func freeSpace(at path: String) throws(SystemError) -> Int64 {
        var status = statvfs()
        if statvfs(path, &status) != 0 { throw SystemError.last("statvfs", path) }
        return Int64(status.f_bavail) * Int64(status.f_frsize)
    }

    /// The path of the folder that holds `path`.
    package static func parent(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }
}

extension FileDescriptor {
    /// Writes an array at the file position.
    package func write(_ bytes: [UInt8]) throws(SystemError) {
        var done = 0
        while done < bytes.count {
            done += try retryingOnInterrupt("write") {
                bytes.withUnsafeBytes { Glibc.write(raw, $0.baseAddress.map { $0 + done }, $0.count - done) }
            }
        }
    }
}
