// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CSQLite
internal import Glibc
internal import Platform

/// All ``DatabaseDisk``s of the process, below the functions with which SQLite reaches files (sqlite.org/vfs.html).
///
/// Files of other folders keep the functions they have.
enum DatabaseDisks {
    private struct File {
        let disk: DatabaseDisk
        let name: String
        /// The functions it came with.
        let original: UnsafePointer<sqlite3_io_methods>
        /// What the last call that failed here failed with.
        var failure: Int32 = 0
    }

    private struct State {
        var disks: [DatabaseDisk] = []
        var files: [Int: File] = [:]
        /// Ours, by those that they stand for: files with locks and files without have different ones.
        var tables: [UnsafePointer<sqlite3_io_methods>: UnsafePointer<sqlite3_io_methods>] = [:]
    }

    private static let state = Monitor(State())

    static func add(_ disk: DatabaseDisk) {
        precondition(isRegistered, "SQLite takes no functions")
        state.update { $0.disks.append(disk) }
    }

    static func remove(_ disk: DatabaseDisk) { state.update { $0.disks.removeAll { $0 === disk } } }

    // MARK: functions

    // Written once, before any disk is there.
    private nonisolated(unsafe) static let original: UnsafeMutablePointer<sqlite3_vfs>? = sqlite3_vfs_find(nil)
    private nonisolated(unsafe) static let functions = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)

    private static let isRegistered: Bool = {
        guard let original else { return false }
        var table = original.pointee
        table.zName = UnsafePointer(strdup("moorage-disk"))
        table.xOpen = { _, path, file, flags, out in DatabaseDisks.open(path, file, flags, out) }
        table.xDelete = { _, path, isSynced in
            if let path, let (disk, name) = DatabaseDisks.place(path) { disk.noteRemoval(name) }
            return DatabaseDisks.original?.pointee.xDelete(DatabaseDisks.original, path, isSynced) ?? SQLITE_ERROR
        }
        functions.initialize(to: table)
        return sqlite3_vfs_register(functions, 1) == SQLITE_OK
    }()

    private static func place(_ path: UnsafePointer<CChar>) -> (DatabaseDisk, String)? {
        let path = String(cString: path)
        return state.inspect { state in
            state.disks.first { path.hasPrefix($0.folder + "/") }
                .map { ($0, String(path.dropFirst($0.folder.count + 1))) }
        }
    }

    /// Opens a file; one in the folder of a disk has our functions in place of those it came with.
    private static func open(
        _ path: UnsafePointer<CChar>?,
        _ file: UnsafeMutablePointer<sqlite3_file>?,
        _ flags: Int32,
        _ out: UnsafeMutablePointer<Int32>?
    ) -> Int32 {
        guard let original, let file else { return SQLITE_ERROR }
        let code = original.pointee.xOpen(original, path, file, flags, out)
        guard code == SQLITE_OK, let path, let (disk, name) = place(path), let methods = file.pointee.pMethods else {
            return code
        }
        disk.note(name) { _ in }
        let address = Int(bitPattern: file)
        state.update { state in
            state.files[address] = File(disk: disk, name: name, original: methods)
            let table = state.tables[methods] ?? replacing(methods)
            state.tables[methods] = table
            UnsafeMutablePointer<sqlite3_file>(bitPattern: address)?.pointee.pMethods = table
        }
        return code
    }

    /// Functions that differ from those of a file where a disk has a say.
    private static func replacing(_ methods: UnsafePointer<sqlite3_io_methods>) -> UnsafePointer<sqlite3_io_methods> {
        var table = methods.pointee
        table.xClose = { file in
            let known = DatabaseDisks.state.update { $0.files.removeValue(forKey: Int(bitPattern: file)) }
            return known?.original.pointee.xClose(file) ?? SQLITE_ERROR
        }
        table.xRead = { DatabaseDisks.read($0, $1, $2, $3) }
        table.xWrite = { DatabaseDisks.write($0, $1, $2, $3) }
        table.xTruncate = { DatabaseDisks.truncate($0, $1) }
        table.xSync = { DatabaseDisks.synchronize($0, $1) }
        table.xFileControl = { DatabaseDisks.control($0, $1, $2) }
        let place = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        place.initialize(to: table)
        return UnsafePointer(place)
    }

    // MARK: calls

    private static func file(_ file: UnsafeMutablePointer<sqlite3_file>?) -> File? {
        state.inspect { $0.files[Int(bitPattern: file)] }
    }

    /// The errno with which a call is to fail; nil where it is not.
    private static func failure(
        _ kind: DatabaseDisk.Call.Kind,
        _ known: File,
        _ file: UnsafeMutablePointer<sqlite3_file>?,
        at offset: Int64 = 0,
        _ count: Int32 = 0
    ) -> Int32? {
        let call = DatabaseDisk.Call(kind: kind, name: known.name, offset: offset, count: Int64(count))
        let code = known.disk.errno(call)
        if code == 0 { return nil }
        state.update { $0.files[Int(bitPattern: file)]?.failure = code }
        return code
    }

    private static func read(
        _ file: UnsafeMutablePointer<sqlite3_file>?,
        _ bytes: UnsafeMutableRawPointer?,
        _ count: Int32,
        _ offset: Int64
    ) -> Int32 {
        guard let known = self.file(file) else { return SQLITE_ERROR }
        // As unixRead() of os_unix.c has it.
        if let code = failure(.read, known, file, at: offset, count) {
            return [EIO, ENXIO, ERANGE].contains(code) ? corruptFileSystem : failedRead
        }
        return known.original.pointee.xRead(file, bytes, count, offset)
    }

    private static func write(
        _ file: UnsafeMutablePointer<sqlite3_file>?,
        _ bytes: UnsafeRawPointer?,
        _ count: Int32,
        _ offset: Int64
    ) -> Int32 {
        guard let known = self.file(file) else { return SQLITE_ERROR }
        if let code = failure(.write, known, file, at: offset, count) {
            return code == ENOSPC ? SQLITE_FULL : failedWrite
        }
        let code = known.original.pointee.xWrite(file, bytes, count, offset)
        guard code == SQLITE_OK else { return code }
        let bytes = Array(UnsafeRawBufferPointer(start: bytes, count: Int(count)))
        known.disk.note(known.name) { $0.write(bytes, at: offset) }
        return code
    }

    private static func truncate(_ file: UnsafeMutablePointer<sqlite3_file>?, _ size: Int64) -> Int32 {
        guard let known = self.file(file) else { return SQLITE_ERROR }
        if failure(.truncate, known, file, at: size) != nil { return failedTruncation }
        let code = known.original.pointee.xTruncate(file, size)
        if code == SQLITE_OK { known.disk.note(known.name) { $0.truncate(to: size) } }
        return code
    }

    private static func synchronize(_ file: UnsafeMutablePointer<sqlite3_file>?, _ flags: Int32) -> Int32 {
        guard let known = self.file(file) else { return SQLITE_ERROR }
        if failure(.sync, known, file) != nil {
            known.disk.note(known.name) { $0.drop() }
            return failedSync
        }
        let code = known.original.pointee.xSync(file, flags)
        if code == SQLITE_OK { known.disk.note(known.name) { $0.synchronize() } }
        return code
    }

    private static func control(
        _ file: UnsafeMutablePointer<sqlite3_file>?,
        _ operation: Int32,
        _ argument: UnsafeMutableRawPointer?
    ) -> Int32 {
        guard let known = self.file(file) else { return SQLITE_ERROR }
        guard operation == SQLITE_FCNTL_LAST_ERRNO, known.failure != 0 else {
            return known.original.pointee.xFileControl(file, operation, argument)
        }
        argument?.assumingMemoryBound(to: Int32.self).pointee = known.failure
        return SQLITE_OK
    }

    // Extended result codes (sqlite.org/rescode.html), which are sums and so not imported.
    private static let failedRead = SQLITE_IOERR | 1 << 8
    private static let failedWrite = SQLITE_IOERR | 3 << 8
    private static let failedSync = SQLITE_IOERR | 4 << 8
    private static let failedTruncation = SQLITE_IOERR | 6 << 8
    private static let corruptFileSystem = SQLITE_IOERR | 33 << 8
}
