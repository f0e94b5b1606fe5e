// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Glibc
internal import Platform

/// Starts the process of a mount in the background and waits until it answers.
struct MountLauncher {
    let request: MountRequest
    let options: [String]
    let directories: Directories

    /// Where the process writes what happens to it.
    private var log: String { directories.mountLog(request.volume.id) }

    /// Returns when the mount answers, with a note for people where there is one.
    func launch() throws(CommandFailure) -> String? {
        let pid: Int32
        let output: [UInt8]
        do {
            (pid, output) = try spawnAndRead()
        } catch {
            throw CommandFailure("mount: \(request.remote): \(error.description)")
        }
        switch MountOutcome(line: String(decoding: output, as: UTF8.self)) {
        case .ready(let note): return note
        case .failed(let failure): throw failure
        case nil:
            throw CommandFailure("mount: \(request.remote): \(silence(of: pid))")
        }
    }

    /// Says what became of a process that told nothing, as one does that is killed or crashes.
    private func silence(of pid: Int32) -> String {
        // The pipe is closed a moment before the process is gone, which takes long where a thread waits for a disk.
        let end = ProcessEnd.of(pid, within: 10)
        let story = end.map { "its process \($0)" } ?? "its process \(pid) says nothing any more"
        let size = ((try? FileStatus.of(log)) ?? nil)?.size ?? 0
        return "\(story) before the mount was ready" + (size > 0 ? "; see \(log)" : "")
    }

    private func spawnAndRead() throws(SystemError) -> (pid: Int32, output: [UInt8]) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw SystemError.last("pipe") }
        let reading = FileDescriptor(owning: ends[0])
        let writing = FileDescriptor(owning: ends[1])
        _ = fcntl(reading.raw, F_SETFD, FD_CLOEXEC)
        _ = fcntl(writing.raw, F_SETFD, FD_CLOEXEC)
        let logFile = try LogFile(log).open()
        var arguments = ["mount", "--foreground", "--ready-fd", "3"]
        for option in options { arguments += ["-o", option] }
        arguments += ["--", request.remote, request.mountpoint]
        let pid = try ChildProcess.spawnDetached(
            try ChildProcess.executablePath(),
            arguments,
            errors: logFile.raw,
            inherit: [(ours: writing.raw, theirs: 3)]
        )
        writing.close()
        return (pid, try readAll(reading))
    }

    private func readAll(_ descriptor: borrowing FileDescriptor) throws(SystemError) -> [UInt8] {
        var result: [UInt8] = []
        let chunk = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 1)
        defer { chunk.deallocate() }
        while result.count < 65_536 {
            let count = try descriptor.readSome(into: chunk)
            if count == 0 { break }
            result += chunk[..<count]
        }
        return result
    }
}
