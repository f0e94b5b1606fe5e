// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CFuse
internal import FileSystem
internal import Glibc

/// Finding, making, moving and removing names.
extension Operations {
    static func addNames(to table: inout fuse_lowlevel_ops) {
        table.lookup = { raw, parent, text in
            guard let request = Request(raw) else { return }
            Operations.lookup(request, parent, text)
        }
        table.forget = { raw, number, count in
            guard let raw, let request = Request(raw) else { return }
            request.fileSystem.forget(number, count: count)
            fuse_reply_none(raw)
        }
        table.forget_multi = { raw, count, list in
            guard let raw, let request = Request(raw) else { return }
            for entry in UnsafeBufferPointer(start: list, count: count) {
                request.fileSystem.forget(entry.ino, count: entry.nlookup)
            }
            fuse_reply_none(raw)
        }
        addCreation(to: &table)
        addRemoval(to: &table)
    }

    private static func lookup(_ request: Request, _ parent: fuse_ino_t, _ text: UnsafePointer<CChar>?) {
        // From before the look, which asks the remote when that time is over.
        let lifetime = request.fileSystem.lifetime(in: parent)
        do throws(FileError) {
            let status = try request.interruptible { () throws(FileError) in
                try request.fileSystem.lookup(parent, name(text))
            }
            var parameters = request.entryParameters(status, lifetime: lifetime)
            if fuse_reply_entry(request.raw, &parameters) != 0 {
                request.fileSystem.forget(parameters.ino, count: 1)
            }
        } catch {
            guard case .noEntry = error else { return request.fail(error) }
            request.bridge.kernelNames.noteMissing(parent, name(text), for: lifetime)
            // Inode 0 lets the kernel remember that the name does not exist.
            var nothing = fuse_entry_param()
            nothing.entry_timeout = lifetime
            _ = fuse_reply_entry(request.raw, &nothing)
        }
    }

    private static func addCreation(to table: inout fuse_lowlevel_ops) {
        table.mkdir = { raw, parent, text, mode in
            guard let request = Request(raw) else { return }
            request.entry { () throws(FileError) in
                try request.fileSystem.makeDirectory(parent, name(text), mode: mode, caller: request.caller)
            }
        }
        table.symlink = { raw, target, parent, text in
            guard let request = Request(raw) else { return }
            request.entry { () throws(FileError) in
                try request.fileSystem.makeSymbolicLink(
                    parent,
                    name(text),
                    target: name(target),
                    caller: request.caller
                )
            }
        }
        table.mknod = { raw, parent, text, mode, device in
            guard let request = Request(raw) else { return }
            request.entry { () throws(FileError) in
                if mode & S_IFMT == S_IFREG {
                    return try request.fileSystem.makeFile(parent, name(text), mode: mode, caller: request.caller)
                }
                return try request.fileSystem.makeSpecialFile(
                    parent,
                    name(text),
                    mode: mode,
                    device: UInt32(truncatingIfNeeded: device),
                    caller: request.caller
                )
            }
        }
        table.link = { raw, number, parent, text in
            guard let request = Request(raw) else { return }
            request.entry { () throws(FileError) in try request.fileSystem.link(number, parent, name(text)) }
        }
    }

    private static func addRemoval(to table: inout fuse_lowlevel_ops) {
        table.unlink = { raw, parent, text in
            guard let request = Request(raw) else { return }
            request.acknowledge { () throws(FileError) in try request.fileSystem.unlink(parent, name(text)) }
        }
        table.rmdir = { raw, parent, text in
            guard let request = Request(raw) else { return }
            request.acknowledge { () throws(FileError) in try request.fileSystem.removeDirectory(parent, name(text)) }
        }
        table.rename = { raw, parent, text, newParent, newText, flags in
            guard let request = Request(raw) else { return }
            request.acknowledge { () throws(FileError) in
                try request.fileSystem.rename(parent, name(text), to: newParent, name(newText), flags: flags)
            }
        }
    }
}
