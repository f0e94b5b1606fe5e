// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import Glibc
internal import Platform

/// What makes a process the one flusher: the locks of its runtime folder and of its state folder.
///
/// Commands without XDG_RUNTIME_DIR (cron, ssh) have another runtime folder than the session, and the same state. They
/// find the flusher by a note in the state folder, which means something only while the lock there is held.
final class FlusherPost {
    private let directories: Directories
    private var runtimeLock: FileLock
    private let stateLock: FileLock?

    /// Takes the locks; nil when another process holds one of them.
    init?(_ directories: Directories) throws(SystemError) {
        try Files.makeDirectories(directories.runtime)
        guard let runtimeLock = try FileLock(acquiring: directories.flusherLock) else { return nil }
        do throws(SystemError) {
            guard let lock = try FileLock(acquiring: directories.stateLock) else { return nil }
            stateLock = consume lock
        } catch {
            // Uploads are what empties a full disk.
            guard [ENOSPC, EDQUOT, EROFS].contains(error.code) else { throw error }
            Log.warning("flusher", "goes on without a lock: \(error)")
            stateLock = nil
        }
        self.directories = directories
        self.runtimeLock = runtimeLock
    }

    /// How long a flusher that was asked to end may take, in seconds.
    private static let patience = 45.0

    /// Takes the locks from whoever has them, which is asked to end with SIGTERM; nil when it does not in time.
    ///
    /// The service manager has opened the control socket in place of the one that the other listens at, so nobody could
    /// ask it there.
    static func takenOver(_ directories: Directories) throws(SystemError) -> FlusherPost? {
        let end = monotonicSeconds() + patience
        var asked: Set<Int32> = []
        while true {
            if let post = try FlusherPost(directories) { return post }
            for lock in [directories.flusherLock, directories.stateLock] {
                guard let pid = FileLock.holder(of: lock).pid, pid != getpid(), isFlusher(pid) else { continue }
                guard asked.insert(pid).inserted else { continue }
                Log.notice("flusher", "takes the place of process \(pid)")
                kill(pid, SIGTERM)
            }
            guard monotonicSeconds() < end else { return nil }
            usleep(50_000)
        }
    }

    /// Whether a process that wrote its number into a lock is what it should be: of a full disk the number may be old.
    private static func isFlusher(_ pid: Int32) -> Bool {
        guard let line = try? Files.read("/proc/\(pid)/cmdline", limit: 65_536) else { return false }
        return line.split(separator: 0).contains { Array($0) == Array("flusher".utf8) }
    }

    /// Notes in the state folder where we listen.
    ///
    /// That needs no space when the last flusher listened there too.
    func announce() {
        guard stateLock != nil else { return }
        let (note, socket) = (directories.socketNote, Array(directories.controlSocket.utf8))
        guard (try? Files.read(note, limit: 4096)) != socket else { return }
        do throws(SystemError) {
            try Files.removeAbandoned(of: note)
            try Files.writeAtomically(note, socket)
        } catch {
            Log.warning("flusher", "commands with another runtime folder will not find it: \(error)")
        }
    }

    /// Listens again where somebody deleted the socket, as a logout does with XDG_RUNTIME_DIR.
    ///
    /// Nobody could start another flusher in our place, and whoever comes back must find this one.
    func restore(_ server: ControlServer) {
        func isGone(_ path: String) -> Bool { (try? FileStatus.of(path)) == nil }
        // Whoever deletes the state too wants no folder back.
        guard isGone(directories.controlSocket), !isGone(directories.state) else { return }
        do {
            try PrivateDirectory.prepare(directories.runtime)
            if let lock = try FileLock(acquiring: directories.flusherLock) { runtimeLock = lock }
            try server.listenAgain()
            Log.notice("flusher", "listens again: its socket was deleted")
        } catch {
            Log.debug("flusher", "its socket was deleted: \(error)")
        }
    }

    /// Whether the state folder is not there any more: nothing that is known of uploads could be found again.
    var isDeserted: Bool {
        do throws(SystemError) {
            return try FileStatus.of(directories.state) == nil
        } catch {
            // A disk that does not answer is another matter.
            return false
        }
    }
}
