// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import Glibc
internal import Platform

/// System calls on names relative to an open folder; none follows a symbolic link or leaves the folder.
enum FolderCalls {
    /// Opens `path`, names with slashes between them, beneath `folder`; nil when there is nothing.
    static func open(
        _ path: ObjectKey,
        beneath folder: Int32,
        _ flags: Int32 = O_RDONLY | O_DIRECTORY
    ) throws(SystemError) -> OpenFile? {
        // O_NONBLOCK: a FIFO that another program put there must not hold the thread.
        let number = withCString(path) { moorage_open_beneath(folder, $0, flags | O_NONBLOCK) }
        if number >= 0 { return OpenFile(FileDescriptor(owning: number)) }
        switch errno {
        case ENOENT, ENOTDIR, ELOOP, ENXIO: return nil
        default: throw SystemError.last("openat2", path.string)
        }
    }

    /// Creates a folder; false when something with that name is there already.
    static func makeFolder(_ name: ObjectKey, in folder: Int32) throws(SystemError) -> Bool {
        if withCString(name, { mkdirat(folder, $0, 0o777) }) == 0 { return true }
        if errno == EEXIST { return false }
        throw SystemError.last("mkdirat", name.string)
    }

    /// Creates a new file for reading and writing.
    static func createFile(_ name: ObjectKey, in folder: Int32) throws(SystemError) -> OpenFile {
        let flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW
        let number = withCString(name) { openat(folder, $0, flags, 0o666) }
        if number < 0 { throw SystemError.last("openat", name.string) }
        return OpenFile(FileDescriptor(owning: number))
    }

    static func rename(
        _ old: ObjectKey,
        in oldFolder: Int32,
        to new: ObjectKey,
        in newFolder: Int32
    ) throws(SystemError) {
        let result = withCString(old) { old in withCString(new) { renameat(oldFolder, old, newFolder, $0) } }
        if result != 0 { throw SystemError.last("renameat", new.string) }
    }

    static func removeFile(_ name: ObjectKey, in folder: Int32) throws(SystemError) {
        if withCString(name, { unlinkat(folder, $0, 0) }) != 0 { throw SystemError.last("unlinkat", name.string) }
    }

    /// Removes an empty folder; false when it is not empty or not there.
    static func removeFolder(_ name: ObjectKey, in folder: Int32) throws(SystemError) -> Bool {
        if withCString(name, { unlinkat(folder, $0, AT_REMOVEDIR) }) == 0 { return true }
        if [ENOTEMPTY, EEXIST, ENOENT, ENOTDIR, EBUSY].contains(errno) { return false }
        throw SystemError.last("unlinkat", name.string)
    }

    /// What a name is, itself when it is a symbolic link; nil when there is nothing.
    static func status(_ name: ObjectKey, in folder: Int32) throws(SystemError) -> FileStatus? {
        var status = stat()
        if withCString(name, { fstatat(folder, $0, &status, AT_SYMLINK_NOFOLLOW) }) == 0 { return FileStatus(status) }
        if errno == ENOENT || errno == ENOTDIR { return nil }
        throw SystemError.last("fstatat", name.string)
    }

    /// A name in a folder and whether it is a folder itself; other kinds than files and folders are left out.
    struct Entry: Hashable, Sendable {
        let name: ObjectKey
        let isFolder: Bool
    }

    /// The files and folders in a folder, unsorted.
    static func entries(of folder: OpenFile) throws(SystemError) -> [Entry] {
        guard let copy = try open(ObjectKey("."), beneath: folder.descriptor.raw) else { return [] }
        // fdopendir takes the descriptor over, so it must be one of its own.
        guard let stream = fdopendir(try copy.descriptor.duplicate().detach()) else {
            throw SystemError.last("fdopendir")
        }
        defer { closedir(stream) }
        var entries: [Entry] = []
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                if errno != 0 { throw SystemError.last("readdir") }
                return entries
            }
            let name = name(of: entry)
            if name.bytes == [0x2E] || name.bytes == [0x2E, 0x2E] { continue }
            if let isFolder = try isFolder(entry, name, folder) {
                entries.append(Entry(name: name, isFolder: isFolder))
            }
        }
    }

    private static func name(of entry: UnsafeMutablePointer<dirent>) -> ObjectKey {
        withUnsafePointer(to: &entry.pointee.d_name) { pointer in
            pointer.withMemoryRebound(to: CChar.self, capacity: 256) { text in
                ObjectKey(UnsafeRawBufferPointer(start: text, count: strlen(text)))
            }
        }
    }

    private static func isFolder(
        _ entry: UnsafeMutablePointer<dirent>,
        _ name: ObjectKey,
        _ folder: OpenFile
    ) throws(SystemError) -> Bool? {
        switch Int(entry.pointee.d_type) {
        case Int(DT_DIR): return true
        case Int(DT_REG): return false
        case Int(DT_UNKNOWN):
            let status = try status(name, in: folder.descriptor.raw)
            if status?.isDirectory == true { return true }
            return status?.isRegularFile == true ? false : nil
        default: return nil
        }
    }

    /// Gives the name as a C string; it never contains a zero byte.
    private static func withCString<Result>(_ name: ObjectKey, _ body: (UnsafePointer<CChar>) -> Result) -> Result {
        var bytes = name.bytes
        bytes.append(0)
        return bytes.withUnsafeBufferPointer { buffer in
            buffer.withMemoryRebound(to: CChar.self) { text in
                guard let base = text.baseAddress else { preconditionFailure("a terminated string is never empty") }
                return body(base)
            }
        }
    }
}

extension FileDescriptor {
    /// The first bytes of a small file, at most `count`; fewer or none when they cannot be read.
    func prefix(_ count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            filled = max(0, pread(raw, buffer.baseAddress, count, 0))
        }
    }
}
