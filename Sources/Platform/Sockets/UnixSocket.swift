// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc

/// Stream sockets in the file system (unix(7)).
package enum UnixSocket {
    /// Binds a listening socket at `path`, replacing a stale one, readable and writable for this user only.
    ///
    /// The caller holds whatever lock makes it the only one to listen there.
    package static func listen(at path: String, backlog: Int32 = 64) throws(SystemError) -> FileDescriptor {
        try Files.removeIfPresent(path)
        let listener = try create()
        try withAddress(of: path) { (address, length) throws(SystemError) in
            if Glibc.bind(listener.raw, address, length) != 0 { throw SystemError.last("bind", path) }
        }
        if chmod(path, 0o600) != 0 { throw SystemError.last("chmod", path) }
        if Glibc.listen(listener.raw, backlog) != 0 { throw SystemError.last("listen", path) }
        return listener
    }

    /// Connects to the socket at `path`; ENOENT and ECONNREFUSED mean that nobody listens.
    package static func connect(to path: String) throws(SystemError) -> FileDescriptor {
        let connection = try create()
        try withAddress(of: path) { (address, length) throws(SystemError) in
            _ = try retryingOnInterrupt("connect", path) { Glibc.connect(connection.raw, address, length) }
        }
        return connection
    }

    /// Waits for the next connection on a listening descriptor (accept(2)).
    package static func accept(_ listener: Int32) throws(SystemError) -> FileDescriptor {
        let number = try retryingOnInterrupt("accept") { moorage_accept(listener, nil, nil) }
        return FileDescriptor(owning: number)
    }

    /// Gives a socket the number of another, which is closed (dup3(2)).
    package static func move(_ socket: borrowing FileDescriptor, onto number: Int32) throws(SystemError) {
        if moorage_dup_onto(socket.raw, number) < 0 { throw SystemError.last("dup3") }
    }

    /// The user and process at the other end (SO_PEERCRED, unix(7)).
    package static func peer(of descriptor: borrowing FileDescriptor) throws(SystemError) -> (uid: UInt32, pid: Int32) {
        var uid: UInt32 = 0
        var pid: Int32 = 0
        if moorage_peer_credentials(descriptor.raw, &uid, &pid) != 0 { throw SystemError.last("getsockopt") }
        return (uid, pid)
    }

    /// Ends both directions, so that every thread blocked on the socket returns (shutdown(2)).
    package static func shutdown(_ descriptor: Int32) {
        _ = Glibc.shutdown(descriptor, Int32(SHUT_RDWR))
    }

    /// Sends all bytes without raising SIGPIPE; a peer that takes nothing for `timeout` seconds gives ETIMEDOUT.
    package static func send(
        _ bytes: [UInt8],
        on descriptor: Int32,
        timeout: Double
    ) throws(SystemError) {
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(
                    descriptor,
                    $0.baseAddress.map { $0 + done },
                    $0.count - done,
                    Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
                )
            }
            if count >= 0 {
                done += count
            } else if errno == EAGAIN || errno == EWOULDBLOCK {
                guard try wait(descriptor, for: Int16(POLLOUT), timeout: timeout) else {
                    throw SystemError.make(ETIMEDOUT, "send")
                }
            } else if errno != EINTR {
                throw SystemError.last("send")
            }
        }
    }

    /// Waits until the descriptor can be read; false after `timeout` seconds of ``AttendedClock`` (nil: for ever).
    package static func waitReadable(_ descriptor: Int32, timeout: Double?) throws(SystemError) -> Bool {
        try wait(descriptor, for: Int16(POLLIN), timeout: timeout)
    }

    private static func wait(_ descriptor: Int32, for events: Int16, timeout: Double?) throws(SystemError) -> Bool {
        let end = timeout.map { AttendedClock.shared.seconds + $0 }
        while true {
            let rest = end.map { max(0, $0 - AttendedClock.shared.seconds) }
            if try wait(descriptor, for: events, rest.map { min($0, longestWait) }) { return true }
            if rest == 0 { return false }
        }
    }

    /// Of a longer wait it would be seen late that this process stood still, in seconds.
    private static let longestWait = 5.0

    private static func wait(_ descriptor: Int32, for events: Int16, _ seconds: Double?) throws(SystemError) -> Bool {
        var entry = pollfd(fd: descriptor, events: events, revents: 0)
        let due = seconds.map { monotonicSeconds() + $0 }
        let count = poll(&entry, 1, seconds.map { Int32(($0 * 1000).rounded(.up)) } ?? -1)
        if count < 0, errno != EINTR { throw SystemError.last("poll") }
        if let due { AttendedClock.shared.noteWait(until: due) }
        return count > 0
    }

    private static func create() throws(SystemError) -> FileDescriptor {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        return FileDescriptor(owning: try retryingOnInterrupt("socket") { socket(AF_UNIX, type, 0) })
    }

    /// Calls `body` with the socket address of `path`.
    ///
    /// An address holds 107 bytes; a longer path is reached through a descriptor of its folder.
    private static func withAddress(
        of path: String,
        _ body: (UnsafePointer<sockaddr>, socklen_t) throws(SystemError) -> Void
    ) throws(SystemError) {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let capacity = MemoryLayout.size(ofValue: address.sun_path)
        var name = path
        var folder: Int32 = -1
        defer { if folder >= 0 { close(folder) } }
        if path.utf8.count >= capacity, let slash = path.lastIndex(of: "/") {
            folder = open(String(path[..<slash]), O_DIRECTORY | O_CLOEXEC | O_RDONLY)
            guard folder >= 0 else { throw SystemError.last("open", path) }
            name = "/proc/self/fd/\(folder)" + path[slash...]
        }
        guard name.utf8.count < capacity else { throw SystemError.make(ENAMETOOLONG, "bind", path) }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name.utf8) }
        var failure: SystemError?
        withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                do throws(SystemError) {
                    try body(generic, socklen_t(MemoryLayout<sockaddr_un>.size))
                } catch {
                    failure = error
                }
            }
        }
        if let failure { throw failure }
    }
}
