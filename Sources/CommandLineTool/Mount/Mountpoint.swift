// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// Whether a folder can be mounted on.
enum Mountpoint {
    /// Refuses a path that is missing, no folder, in use or not empty; takes away the remains of a mount that was killed.
    static func check(_ path: String) throws(CommandFailure) {
        let top = MountTable.current().last { $0.mountpoint == path }
        if top?.type == "fuse.moorage" { try clearRemains(path) }
        let status: FileStatus?
        do {
            status = try FileStatus.of(path)
        } catch {
            throw CommandFailure("mount: \(path): \(error.reason)")
        }
        guard let status else {
            throw CommandFailure("mount: \(path): no such folder; make it first: mkdir -p \(path)")
        }
        guard status.isDirectory else { throw CommandFailure("mount: \(path): not a folder; choose a folder") }
        if let top, top.mountpoint == path, MountTable.current().last(where: { $0.mountpoint == path }) != nil {
            throw CommandFailure(
                "mount: \(path): busy: \(top.remote ?? top.source) is mounted there; choose another folder"
            )
        }
        let names: [ObjectKey]
        do {
            names = try Files.names(in: path)
        } catch {
            throw CommandFailure("mount: \(path): \(error.reason)")
        }
        let isOurs = status.uid == geteuid() || status.mode & S_ISVTX == 0
        guard geteuid() == 0 || access(path, W_OK) == 0 && isOurs else {
            throw CommandFailure("mount: \(path): you may not write to this folder; choose one of your own")
        }
        guard names.isEmpty else {
            throw CommandFailure(
                "mount: \(path): the folder is not empty and its files would be hidden; choose an empty one"
            )
        }
    }

    /// Whether fusermount3(1) lets this user use allow_other.
    static var mayLetOthersIn: Bool {
        guard geteuid() != 0 else { return true }
        let text = (try? Files.read("/etc/fuse.conf")).map { String(decoding: $0, as: UTF8.self) } ?? ""
        return text.split(whereSeparator: \.isNewline).contains { line in
            line.split(whereSeparator: \.isWhitespace).joined() == "user_allow_other"
        }
    }

    /// Unmounts what a killed process left behind: nobody answers there any more (ENOTCONN).
    ///
    /// statvfs(3) always asks the file system; stat(2) may answer from the kernel's memory for a while.
    private static func clearRemains(_ path: String) throws(CommandFailure) {
        var status = statvfs()
        guard statvfs(path, &status) != 0, errno == ENOTCONN || errno == ECONNABORTED else { return }
        try UnmountCommand.detach(path, isLazy: true)
        Console.note("\(path): cleared the remains of a mount whose process was killed")
    }
}
