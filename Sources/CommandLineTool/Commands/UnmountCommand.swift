// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import Glibc
internal import Platform

/// `moorage unmount`: takes a mount down; uploads go on, or are waited for.
enum UnmountCommand {
    static let definition = CommandDefinition(
        name: "unmount",
        operands: "MOUNTPOINT",
        operandCount: 1...1,
        flags: [
            FlagDefinition("wait", nil, "return when everything is remote"),
            FlagDefinition("timeout", "SECONDS", "with --wait: give up waiting after this time (uploads go on)"),
            FlagDefinition("json", nil, "print one JSON document: what is pending; with --wait as moorage flush does"),
        ],
        summary: "unmount; what is pending uploads on its own"
    ) { arguments throws(CommandFailure) in
        let timeout = try arguments.seconds("timeout")
        guard timeout == nil || arguments.has("wait") else { throw .usage("unmount: --timeout goes with --wait") }
        let json = arguments.has("json")
        let path = AbsolutePath.resolvedFolder(arguments.operands[0])
        let instance = try Instance.current()
        guard MountTable.isMoorage(at: path) else {
            throw CommandFailure("unmount: \(path): no bucket is mounted there; see moorage status")
        }
        let volume = instance.volume(at: path)
        if volume == nil, arguments.has("wait") {
            throw CommandFailure(
                "unmount: \(path): mounted by another user or instance, whose uploads are not known here"
            )
        }
        let server = volume.flatMap { FileLock.holder(of: instance.directories.places(of: $0).mountLock).pid }
        try detach(path)
        if let volume { try waitForEnd(of: volume, server, instance) }
        guard arguments.has("wait"), let volume else {
            if json { Console.bytes(try document(MountReport(volume, at: path, instance.directories))) }
            return 0
        }
        return try FlushCommand.run(instance, [UploadSelection(volumes: [volume.id])], timeout: timeout, json: json)
    }

    /// How often something that is in use is tried again, and how long after, in microseconds: what walks through all
    /// mounts, as df(1) does, uses one for an instant.
    private static let repetitions = 5
    private static let pause: useconds_t = 100_000

    /// Takes the mount out of the kernel's table; with `isLazy` also when something still uses it.
    static func detach(_ path: String, isLazy: Bool = false) throws(CommandFailure) {
        for repetition in 0...repetitions {
            let isLast = repetition == repetitions
            guard let code = try attempt(path, isLazy: isLazy, isQuiet: !isLast) else { return }
            guard code == EBUSY, !isLast else { throw failure(path, code) }
            usleep(pause)
        }
    }

    /// Why it could not be taken out; nil when it was.
    private static func attempt(_ path: String, isLazy: Bool, isQuiet: Bool) throws(CommandFailure) -> Int32? {
        if geteuid() == 0 {
            return umount2(path, umountNoFollow | (isLazy ? umountDetach : 0)) == 0 ? nil : errno
        }
        let words = [isLazy ? "-uz" : "-u"] + (isQuiet ? ["-q"] : []) + ["--", path]
        guard try ExternalProgram.run("fusermount3", words) != 0 else { return nil }
        return MountTable.isMoorage(at: path) ? EBUSY : EPERM
    }

    // umount2(2): these constants are macros that Swift does not import.
    private static let umountNoFollow: Int32 = 8
    private static let umountDetach: Int32 = 2

    private static func failure(_ path: String, _ code: Int32) -> CommandFailure {
        let error = SystemError.make(code, "umount")
        let next = code == EBUSY ? "; close what uses it (fuser -m \(path) names it) and try again" : ""
        return CommandFailure("unmount: \(path): \(error.reason)\(next)")
    }

    /// Waits until the mount's process has committed what was closed and let go of the volume.
    ///
    /// A copy of the mount in another mount namespace keeps the process serving: after a while it is told to end.
    private static func waitForEnd(
        of volume: VolumeDescription,
        _ server: Int32?,
        _ instance: Instance
    ) throws(CommandFailure) {
        let lock = instance.directories.places(of: volume).mountLock
        let start = monotonicSeconds()
        var isTold = false
        while true {
            let holder = FileLock.holder(of: lock)
            guard holder.isHeld else { return }
            if !isTold, monotonicSeconds() > start + 2, let server, server > 1, holder.pid == server {
                isTold = true
                kill(server, SIGTERM)
            }
            guard monotonicSeconds() < start + 120 else {
                throw CommandFailure("unmount: \(volume.remote): the mount's process does not end; see its log")
            }
            usleep(20_000)
        }
    }
}

extension AbsolutePath {
    /// A folder's path without asking what is mounted at it: symbolic links are resolved, the last name is kept.
    static func resolvedFolder(_ path: String) -> String {
        var result = withResolvedParent(path, in: workingDirectory())
        // As many as the kernel follows. readlink(2) answers for a dead mount without asking it.
        for _ in 0..<40 {
            var buffer = [CChar](repeating: 0, count: 4096)
            let count = readlink(result, &buffer, buffer.count)
            guard count > 0 else { break }
            let folder = result[..<(result.lastIndex(of: "/") ?? result.startIndex)]
            result = withResolvedParent(
                String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self),
                in: String(folder)
            )
        }
        return result
    }

    private static func withResolvedParent(_ path: String, in folder: String) -> String {
        var trimmed = path
        while trimmed.count > 1, trimmed.hasSuffix("/") { trimmed.removeLast() }
        if let slash = trimmed.lastIndex(of: "/") {
            let name = String(trimmed[trimmed.index(after: slash)...])
            let above = slash == trimmed.startIndex ? "/" : String(trimmed[..<slash])
            if name != "..", name != "." {
                let resolvedAbove = resolved(above, in: folder)
                return name.isEmpty ? resolvedAbove : (resolvedAbove == "/" ? "" : resolvedAbove) + "/" + name
            }
        } else if trimmed != ".", trimmed != ".." {
            return resolved(".", in: folder) + "/" + trimmed
        }
        return resolved(trimmed, in: folder)
    }
}
