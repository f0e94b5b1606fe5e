// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CFuse
internal import FileSystem
internal import Glibc

/// Reading folders.
extension Operations {
    /// What a listing gives as the inode number of a name that was not looked up; 0 would hide the name.
    private static let unknownNumber: UInt = 0xFFFF_FFFF

    static func addDirectories(to table: inout fuse_lowlevel_ops) {
        table.opendir = { raw, number, info in
            guard let request = Request(raw), let info else { return }
            do throws(FileError) {
                info.pointee.hold(
                    try request.interruptible { () throws(FileError) in try request.fileSystem.openDirectory(number) }
                )
                if fuse_reply_open(request.raw, info) != 0 { releaseHandle(info, DirectoryHandle.self) }
            } catch {
                request.fail(error)
            }
        }
        table.releasedir = { raw, _, info in
            guard let request = Request(raw) else { return }
            releaseHandle(info, DirectoryHandle.self)
            _ = fuse_reply_err(request.raw, 0)
        }
        table.fsyncdir = { raw, _, _, info in
            guard let request = Request(raw) else { return }
            request.acknowledge { () throws(FileError) in
                guard let handle = handle(info, DirectoryHandle.self) else { throw .badHandle }
                try request.fileSystem.synchronizeNames(handle)
            }
        }
        table.readdir = { raw, _, size, offset, info in
            guard let request = Request(raw) else { return }
            Operations.list(request, size: size, offset: offset, info, withStatus: false)
        }
        table.readdirplus = { raw, _, size, offset, info in
            guard let request = Request(raw) else { return }
            Operations.list(request, size: size, offset: offset, info, withStatus: true)
        }
    }

    private static func list(
        _ request: Request,
        size: Int,
        offset: off_t,
        _ info: UnsafeMutablePointer<fuse_file_info>?,
        withStatus: Bool
    ) {
        guard let handle = handle(info, DirectoryHandle.self) else { return request.fail(.badHandle) }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 16)
        defer { buffer.deallocate() }
        let lifetime = withStatus ? request.fileSystem.lifetime(in: handle) : 0
        var used = 0
        do throws(FileError) {
            try request.interruptible { () throws(FileError) in
                try request.fileSystem.readDirectory(handle, from: Int(offset), withStatus: withStatus) { entry in
                    let room = UnsafeMutableRawBufferPointer(rebasing: buffer[used...])
                    let count = add(entry, request, to: room, withStatus ? lifetime : nil)
                    guard count <= room.count else { return false }
                    used += count
                    return true
                }
            }
            _ = fuse_reply_buf(request.raw, buffer.baseAddress?.assumingMemoryBound(to: CChar.self), used)
        } catch {
            request.fail(error)
        }
    }

    /// Appends an entry; returns the space it takes, which is more than `room` when it did not fit.
    ///
    /// With its attributes when there is a `lifetime` of theirs, in seconds.
    private static func add(
        _ entry: DirectoryEntry,
        _ request: Request,
        to room: UnsafeMutableRawBufferPointer,
        _ lifetime: Double?
    ) -> Int {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: entry.name.bytes.count + 1) { text in
            for (index, byte) in entry.name.bytes.enumerated() { text[index] = CChar(bitPattern: byte) }
            text[entry.name.bytes.count] = 0
            return add(entry, text.baseAddress, request, to: room, lifetime)
        }
    }

    private static func add(
        _ entry: DirectoryEntry,
        _ text: UnsafePointer<CChar>?,
        _ request: Request,
        to room: UnsafeMutableRawBufferPointer,
        _ lifetime: Double?
    ) -> Int {
        let target = room.baseAddress?.assumingMemoryBound(to: CChar.self)
        if let lifetime {
            var parameters = fuse_entry_param()
            if let status = entry.status {
                parameters = request.entryParameters(status, lifetime: lifetime)
            } else {
                // No inode number: a name only, the kernel looks it up when it needs more.
                parameters.attr.st_mode = entry.type
                parameters.attr.st_ino = entry.number.map { UInt($0) } ?? unknownNumber
            }
            return fuse_add_direntry_plus(request.raw, target, room.count, text, &parameters, off_t(entry.next))
        }
        var status = stat()
        status.st_mode = entry.type
        status.st_ino = entry.number.map { UInt($0) } ?? unknownNumber
        return fuse_add_direntry(request.raw, target, room.count, text, &status, off_t(entry.next))
    }
}
