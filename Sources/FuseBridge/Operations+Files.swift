// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CFuse
internal import CShims
internal import FileSystem
internal import Glibc

/// Opening, closing and syncing files.
extension Operations {
    static func addFiles(to table: inout fuse_lowlevel_ops) {
        table.open = { raw, number, info in
            guard let request = Request(raw), let info else { return }
            do throws(FileError) {
                let mode = OpenMode(flags: info.pointee.flags)
                let handle = try request.interruptible { () throws(FileError) in
                    try request.fileSystem.open(number, mode)
                }
                info.pointee.hold(handle)
                let file = request.bridge.passthrough.isOn ? request.fileSystem.unchangingFile(of: handle) : nil
                if let backing = request.bridge.passthrough.open(number, file) {
                    let isDirect = Operations.isDirectReader(info.pointee.flags)
                    let handle = info.pointee.fh
                    let failure = Passthrough.answer(request.raw, handle: handle, backing: backing, isDirect: isDirect)
                    return failure == 0 ? () : Operations.close(request, number, info)
                }
                info.pointee.keep_cache = 1
                // Each read is then sent as it is, and not by way of the kernel's asynchronous machinery, which takes
                // half as long again; those of io_uring and libaio stay asynchronous. A writer keeps shared mappings.
                info.pointee.direct_io = Operations.isDirectReader(info.pointee.flags) ? 1 : 0
                if fuse_reply_open(request.raw, info) != 0 { Operations.close(request, number, info) }
            } catch {
                request.fail(error)
            }
        }
        table.create = { raw, parent, text, mode, info in
            guard let request = Request(raw), let info else { return }
            Operations.create(request, parent, text, mode, info)
        }
        table.flush = { raw, _, info in
            guard let request = Request(raw) else { return }
            request.acknowledge { () throws(FileError) in
                if let handle = handle(info, FileHandle.self) { try request.fileSystem.flush(handle) }
            }
        }
        table.release = { raw, number, info in
            guard let request = Request(raw) else { return }
            Operations.close(request, number, info)
            _ = fuse_reply_err(request.raw, 0)
        }
        table.fsync = { raw, _, _, info in
            guard let request = Request(raw) else { return }
            request.acknowledge { () throws(FileError) in
                if let handle = handle(info, FileHandle.self) { try request.fileSystem.synchronize(handle) }
            }
        }
    }

    private static func isDirectReader(_ flags: Int32) -> Bool {
        flags & moorage_O_DIRECT != 0 && flags & O_ACCMODE == O_RDONLY
    }

    private static func create(
        _ request: Request,
        _ parent: fuse_ino_t,
        _ text: UnsafePointer<CChar>?,
        _ mode: mode_t,
        _ info: UnsafeMutablePointer<fuse_file_info>
    ) {
        do throws(FileError) {
            let openMode = OpenMode(flags: info.pointee.flags)
            let (status, handle) = try request.interruptible { () throws(FileError) in
                try request.fileSystem.create(parent, name(text), mode: mode, open: openMode, caller: request.caller)
            }
            info.pointee.hold(handle)
            info.pointee.keep_cache = 1
            var parameters = request.entryParameters(status)
            if fuse_reply_create(request.raw, &parameters, info) != 0 {
                Operations.close(request, status.number, info)
                request.fileSystem.forget(status.number, count: 1)
            }
        } catch {
            request.fail(error)
        }
    }

    private static func close(
        _ request: Request,
        _ number: fuse_ino_t,
        _ info: UnsafeMutablePointer<fuse_file_info>?
    ) {
        guard let handle = handle(info, FileHandle.self) else { return }
        if request.bridge.passthrough.close(number), request.fileSystem.hasUnchangingFile(handle) {
            // Who opens it next has the kernel read the cache, and would wait for these pages to go.
            request.bridge.pages.dropAll(number)
        }
        request.fileSystem.release(handle)
        releaseHandle(info, FileHandle.self)
    }
}

extension OpenMode {
    init(flags: Int32) {
        let direction = flags & O_ACCMODE
        self.init(
            isReadable: direction != O_WRONLY,
            isWritable: direction != O_RDONLY,
            isTruncating: flags & O_TRUNC != 0,
            isExclusive: flags & O_EXCL != 0
        )
    }
}
