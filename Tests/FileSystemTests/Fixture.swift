// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import BlockCache
import Catalog
import Database
import FileSystem
import Glibc
import Journal
import Platform

/// A file system over a bucket in memory, with journal, catalog and cache in a folder of its own.
final class Volume {
    let folder: String
    let store = MemoryStore()
    let catalog: Catalog
    private(set) var journal: Journal
    private(set) var files: FileSystem
    private let caller = Caller(uid: 5, gid: 6, umask: 0o022)
    static let root: InodeNumber = 1

    private let disk: DiskSync
    private let options: FileSystemOptions
    private let cacheSize: Int64

    /// With an age of 0 every look asks the remote.
    ///
    /// A catalog in memory is that of a disk that cannot be written to: other processes tell it nothing.
    init(
        metadataAge: Double = 0,
        disk: DiskSync = DiskSync(),
        longestPath: Int = 1_024,
        usesServerModificationTime: Bool = false,
        cacheSize: Int64 = 10 << 30,
        isCatalogInMemory: Bool = false
    ) throws {
        self.disk = disk
        self.cacheSize = cacheSize
        options = FileSystemOptions(
            uid: 1,
            gid: 2,
            metadataAge: metadataAge,
            usesServerModificationTime: usesServerModificationTime,
            longestPath: longestPath
        )
        folder = "/tmp/moorage-volume-" + Randomness.hexadecimal(bytes: 8)
        // A folder in the place of its file is nothing that a database can be made of.
        if isCatalogInMemory { try Files.makeDirectories(folder + "/cache/catalog.sqlite/in/the/way") }
        catalog = try Catalog(directory: folder + "/cache")
        journal = try Journal(directory: folder + "/state", disk: disk)
        files = try Self.fileSystem(folder, store, journal, catalog, options, cacheSize)
    }

    deinit {
        remove(folder)
    }

    private static func fileSystem(
        _ folder: String,
        _ store: MemoryStore,
        _ journal: Journal,
        _ catalog: Catalog,
        _ options: FileSystemOptions,
        _ cacheSize: Int64
    ) throws -> FileSystem {
        let remote = Remote(store: store)
        let cache = BlockCache.Options(
            directory: folder + "/cache/blocks",
            blockSize: 65_536,
            capacity: cacheSize,
            minimumFree: 0
        )
        return FileSystem(
            options: options,
            remote: remote,
            journal: journal,
            catalog: catalog,
            cache: BlockCache(options: cache, source: remote),
            pins: PinStore(path: folder + "/state/pins"),
            onChange: {}
        )
    }

    /// As after an unmount, or a kill, and a new mount; with a `boot` of another name as after power loss that took all
    /// bytes which were not synced, but none of the journal.
    func mountAgain(metadataAge: Double = 0, boot: String? = nil) throws {
        journal =
            try boot.map { boot in try Journal.recovering(directory: folder + "/state", boot: boot, disk: disk).journal
            }
            ?? Journal.recovering(directory: folder + "/state", disk: disk).journal
        var options = options
        options.metadataAge = metadataAge
        files = try Self.fileSystem(folder, store, journal, catalog, options, cacheSize)
    }

    private func remove(_ path: String) {
        guard let status = try? FileStatus.of(path) else { return }
        guard status.isDirectory else { return unlinkQuietly(path) }
        for name in (try? Files.names(in: path)) ?? [] { remove("\(path)/\(name.string)") }
        try? Files.removeDirectory(path)
    }

    private func unlinkQuietly(_ path: String) {
        try? Files.removeIfPresent(path)
    }

    // MARK: By path

    func number(_ path: String) throws -> InodeNumber {
        var number = Self.root
        for part in path.split(separator: "/") { number = try files.lookup(number, ObjectKey(String(part))).number }
        return number
    }

    func status(_ path: String) throws -> InodeStatus { try files.status(number(path)) }

    private func place(_ path: String) throws -> (InodeNumber, ObjectKey) {
        let key = ObjectKey(path)
        return (try number(key.parent.string), key.name)
    }

    func makeFolder(_ path: String) throws {
        let (parent, name) = try place(path)
        _ = try files.makeDirectory(parent, name, mode: 0o755, caller: caller)
    }

    func makeLink(_ path: String, to target: String) throws {
        let (parent, name) = try place(path)
        _ = try files.makeSymbolicLink(parent, name, target: ObjectKey(target), caller: caller)
    }

    func unlink(_ path: String) throws {
        // The kernel looks a name up before it removes it.
        _ = try number(path)
        let (parent, name) = try place(path)
        try files.unlink(parent, name)
    }

    func removeFolder(_ path: String) throws {
        let (parent, name) = try place(path)
        try files.removeDirectory(parent, name)
    }

    func rename(_ old: String, _ new: String, flags: UInt32 = 0) throws {
        let (parent, name) = try place(old)
        let (newParent, newName) = try place(new)
        try files.rename(parent, name, to: newParent, newName, flags: flags)
    }

    func open(_ path: String, write: Bool = false, truncate: Bool = false) throws -> FileHandle {
        try files.open(number(path), OpenMode(isReadable: true, isWritable: write, isTruncating: truncate))
    }

    func create(_ path: String, write: Bool = true) throws -> FileHandle {
        let (parent, name) = try place(path)
        return try files.create(
            parent,
            name,
            mode: 0o644,
            open: OpenMode(isReadable: true, isWritable: write),
            caller: caller
        ).1
    }

    func close(_ handle: FileHandle) throws {
        try files.flush(handle)
        files.release(handle)
    }

    @discardableResult
    func write(_ handle: FileHandle, _ bytes: [UInt8], at offset: Int64) throws -> Int {
        try files.write(handle, ByteRange(offset: offset, count: Int64(bytes.count))) { descriptor in
            bytes.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, Int(offset)) }
        }
    }

    func read(_ handle: FileHandle, _ range: ByteRange) throws -> [UInt8] {
        var result: [UInt8]?
        try files.read(handle, range) { bytes in
            switch bytes {
            case .memory(let buffer): result = Array(buffer)
            case .pieces(let pieces): result = pieces.flatMap { Array($0) }
            case .file(let descriptor, let part):
                var content = [UInt8](repeating: 0, count: Int(part.count))
                let count = content.withUnsafeMutableBytes {
                    pread(descriptor, $0.baseAddress, $0.count, Int(part.lower))
                }
                result = Array(content[..<max(0, count)])
            }
        }
        return result ?? []
    }

    /// Changes the journal's tables, so that some changes of rows fail, or do not any more.
    func alter(_ sql: String) throws {
        let database = try Database(path: "\(journal.directory)/journal.sqlite")
        try database.read { connection throws(DatabaseError) in try connection.script(sql) }
    }

    func put(_ path: String, _ bytes: [UInt8]) throws {
        let handle: FileHandle
        do {
            handle = try open(path, write: true, truncate: true)
        } catch FileError.noEntry {
            handle = try create(path)
        }
        try write(handle, bytes, at: 0)
        try close(handle)
    }

    func content(_ path: String) throws -> [UInt8] {
        let handle = try open(path)
        defer { files.release(handle) }
        return try read(handle, ByteRange(0, max(1, status(path).size)))
    }

    func names(_ path: String) throws -> [String] {
        let handle = try files.openDirectory(number(path))
        var names: [String] = []
        try files.readDirectory(handle, from: 0, withStatus: true) { entry in
            names.append(entry.name.string)
            return true
        }
        return names.filter { $0 != "." && $0 != ".." }.sorted()
    }
}
