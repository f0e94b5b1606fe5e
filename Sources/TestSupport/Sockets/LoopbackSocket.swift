// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
package import Platform

/// An IPv4 address and port, such as `127.0.0.1:8080`.
package struct SocketAddress: Sendable, Hashable, CustomStringConvertible {
    package let host: String
    package let port: UInt16

    package init(host: String = "127.0.0.1", port: UInt16) {
        self.host = host
        self.port = port
    }

    /// Parses `HOST:PORT`; nil when it is not of that form.
    package init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            return nil
        }
        let host = String(text[..<colon])
        self.init(host: host == "localhost" ? "127.0.0.1" : host, port: port)
    }

    package var description: String { "\(host):\(port)" }
}

/// The few socket calls that the tools for tests need (tcp(7)).
package enum LoopbackSocket {
    /// A socket bound to `address`, listening when `isListening`; port 0 picks one.
    package static func bound(to address: SocketAddress, isListening: Bool) throws(SystemError) -> FileDescriptor {
        let socket = try make()
        var one: Int32 = 1
        setsockopt(socket.raw, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
        let result = withAddress(address) { Glibc.bind(socket.raw, $0, $1) }
        if result != 0 { throw SystemError.last("bind", address.description) }
        if isListening { try startListening(socket) }
        return socket
    }

    /// Lets a bound socket accept connections: until then connecting to it is refused.
    package static func startListening(_ socket: borrowing FileDescriptor) throws(SystemError) {
        if listen(socket.raw, 128) != 0 { throw SystemError.last("listen") }
    }

    /// A connection to `address`, without Nagle's delay.
    package static func connected(to address: SocketAddress) throws(SystemError) -> FileDescriptor {
        let socket = try make()
        try connect(socket, to: address)
        return socket
    }

    /// Connects a socket, which may be bound, without Nagle's delay.
    package static func connect(
        _ socket: borrowing FileDescriptor,
        to address: SocketAddress
    ) throws(SystemError) {
        let result = withAddress(address) { Glibc.connect(socket.raw, $0, $1) }
        if result != 0 { throw SystemError.last("connect", address.description) }
        disableDelay(socket)
    }

    /// The next connection of a listener, nil when none came within `milliseconds`.
    package static func accept(
        _ listener: borrowing FileDescriptor,
        milliseconds: Int32
    ) throws(SystemError) -> FileDescriptor? {
        guard isReady(listener, POLLIN, milliseconds: milliseconds) else { return nil }
        let number = Glibc.accept(listener.raw, nil, nil)
        if number < 0 {
            if errno == ECONNABORTED || errno == EAGAIN || errno == EINTR { return nil }
            throw SystemError.last("accept")
        }
        _ = fcntl(number, F_SETFD, FD_CLOEXEC)
        let socket = FileDescriptor(owning: number)
        disableDelay(socket)
        return socket
    }

    /// The port that a bound socket got.
    package static func port(of socket: borrowing FileDescriptor) -> UInt16 {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket.raw, $0, &length) }
        }
        return UInt16(bigEndian: address.sin_port)
    }

    /// Whether poll(2) reports `events` within `milliseconds`.
    package static func isReady(_ socket: borrowing FileDescriptor, _ events: Int32, milliseconds: Int32) -> Bool {
        var entry = pollfd(fd: socket.raw, events: Int16(events), revents: 0)
        return poll(&entry, 1, milliseconds) > 0
    }

    /// Makes the close of the socket send RST and drop what is unsent (SO_LINGER of zero, socket(7)).
    package static func resetOnClose(_ socket: borrowing FileDescriptor) {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(socket.raw, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    private static func make() throws(SystemError) -> FileDescriptor {
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        return FileDescriptor(owning: try retryingOnInterrupt("socket") { socket(AF_INET, kind, 0) })
    }

    private static func disableDelay(_ socket: borrowing FileDescriptor) {
        var one: Int32 = 1
        setsockopt(socket.raw, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
    }

    private static func withAddress<Result>(
        _ address: SocketAddress,
        _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        var native = sockaddr_in()
        native.sin_family = sa_family_t(AF_INET)
        native.sin_port = address.port.bigEndian
        inet_pton(AF_INET, address.host, &native.sin_addr)
        return withUnsafePointer(to: &native) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
