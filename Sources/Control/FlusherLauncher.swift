// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// Where the flusher of this user is found.
package struct ControlPaths: Sendable, Hashable {
    package let runtimeDirectory: String
    /// The lock that the one flusher of a state folder holds, whatever runtime folder it was started with.
    private let stateLock: String
    /// The file with the path of that flusher's control socket.
    private let socketNote: String
    /// Where a service manager may listen for us although our own runtime folder is another one.
    private let serviceSocket: String?

    package init(runtimeDirectory: String, stateLock: String, socketNote: String, serviceSocket: String? = nil) {
        self.runtimeDirectory = runtimeDirectory
        self.serviceSocket = serviceSocket
        self.stateLock = stateLock
        self.socketNote = socketNote
    }

    /// The control socket.
    package var socket: String { runtimeDirectory + "/control.sock" }
    /// The lock that the one flusher of this runtime folder holds.
    package var lock: String { runtimeDirectory + "/flusher.lock" }
    /// What a flusher started by another command writes to its standard error.
    package var log: String { runtimeDirectory + "/flusher.log" }

    /// Where a flusher may listen, our own place first.
    ///
    /// A command without XDG_RUNTIME_DIR (cron, ssh) has another runtime folder than the session, and the same state.
    var sockets: [String] {
        guard FileLock.holder(of: stateLock).isHeld, let note = try? Files.read(socketNote, limit: 4096) else {
            return [socket] + [serviceSocket].compactMap { $0 }
        }
        let noted = String(decoding: note, as: UTF8.self)
        return noted == socket || !noted.hasPrefix("/") ? [socket] : [socket, noted]
    }

    /// Whether a flusher runs, also one that is just starting or ending.
    var isTaken: Bool { FileLock.holder(of: lock).isHeld || FileLock.holder(of: stateLock).isHeld }

    /// Names the flusher that keeps us from starting one.
    var silence: String {
        let holder = FileLock.holder(of: stateLock)
        guard holder.isHeld else { return "no answer at \(socket)" }
        let process = holder.pid.map { "process \($0)" } ?? "the one that holds \(stateLock)"
        return "\(process) is the flusher and cannot be reached from \(runtimeDirectory); end it and try again"
    }
}

/// Connects to the flusher and starts one when there is none.
package struct FlusherLauncher: Sendable {
    package let paths: ControlPaths
    /// The program to start; nil: this one.
    private let executable: String?
    private let arguments: [String]
    /// The version of this program; nil: whatever flusher runs will do.
    private let version: String?

    /// `arguments` are those of the flusher's command line behind the program's name.
    package init(
        paths: ControlPaths,
        executable: String? = nil,
        arguments: [String] = ["flusher"],
        version: String? = nil
    ) {
        self.paths = paths
        self.version = version
        self.executable = executable
        self.arguments = arguments
    }

    /// A connection to the running flusher, nil when none runs.
    package func connectIfRunning(program: String) throws(ControlError) -> ControlClient? {
        for socket in paths.sockets {
            do throws(ControlError) {
                return try ControlClient(connectingTo: socket, program: program, version: version)
            } catch {
                if !error.isNobodyThere { throw error }
            }
        }
        return nil
    }

    /// A connection to the flusher, which is started if need be; gives up after `timeout` seconds.
    ///
    /// A flusher of another protocol version, or of an older program, is asked to end, then replaced.
    package func connect(program: String, timeout: Double = 15) throws(ControlError) -> ControlClient {
        var end = AttendedClock.shared.seconds + timeout
        var pause = 0.02
        var child: SpawnedFlusher?
        var reason: String?
        while true {
            do throws(ControlError) {
                if let client = try connectIfRunning(program: program) { return client }
            } catch {
                // One that starts or ends just now refuses or drops a connection: try again.
                if case .incompatible = error { stopOther() }
                if case .handingOver = error {
                    // It lets parts under way end, which the limit is not for.
                    end = max(end, AttendedClock.shared.seconds + timeout)
                    pause = 0.2
                }
                reason = error.description
            }
            if child == nil, !paths.isTaken { child = try spawn() }
            if let failure = child?.failure { throw .notStarted("\(failure), see \(paths.log)") }
            if child?.hasEnded == true { child = nil }
            guard AttendedClock.shared.seconds < end else { throw .notStarted(reason ?? paths.silence) }
            let due = monotonicSeconds() + pause
            usleep(UInt32(pause * 1e6))
            AttendedClock.shared.noteWait(until: due)
        }
    }

    /// Asks a flusher of whatever version to end.
    private func stopOther() {
        guard let frame = try? JSON.encode(ControlRequestFrame(id: 1, request: .stop)) else { return }
        for socket in paths.sockets {
            guard let descriptor = try? UnixSocket.connect(to: socket) else { continue }
            let channel = FrameChannel(descriptor)
            try? channel.send(frame)
            _ = try? channel.receive(timeout: 5)
            return
        }
    }

    private func spawn() throws(ControlError) -> SpawnedFlusher {
        do throws(SystemError) {
            try Files.makeDirectories(paths.runtimeDirectory)
            let log = try LogFile(paths.log).open()
            let own = try Self.ownPath()
            let program = executable ?? own
            let pid = try ChildProcess.spawnDetached(program, arguments, output: log.raw, errors: log.raw)
            return try SpawnedFlusher(pid: pid)
        } catch {
            throw .notStarted(error.description)
        }
    }

    /// This program's path, also when its file was replaced by an upgrade.
    private static func ownPath() throws(SystemError) -> String {
        let path = try ChildProcess.executablePath()
        let mark = " (deleted)"
        return path.hasSuffix(mark) ? String(path.dropLast(mark.count)) : path
    }
}

/// A flusher we started: collects its exit status, so that it leaves no zombie.
private final class SpawnedFlusher: Sendable {
    private let end: Monitor<ProcessEnd?>

    init(pid: Int32) throws(SystemError) {
        let end = Monitor<ProcessEnd?>(nil)
        self.end = end
        try Thread.detached(name: "reap", stackSize: 128 << 10) {
            var code: Int32 = 0
            while waitpid(pid, &code, 0) == -1, errno == EINTR {}
            end.update { $0 = ProcessEnd(waitStatus: code) }
        }
    }

    var hasEnded: Bool { end.inspect { $0 != nil } }

    /// How it failed; nil while it runs and when it ended well, as one does that finds another in its place.
    var failure: String? {
        end.inspect { $0 }.flatMap { $0 == .exited(0) ? nil : "it \($0)" }
    }
}
