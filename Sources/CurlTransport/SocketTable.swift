// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc

/// The sockets that libcurl has made, to find the one that a transfer uses.
///
/// libcurl tells the socket of a connection only once a transfer is over, but its ports at any time. Nothing tells when
/// a socket is closed: a number that is of no such connection any more is dropped when it is met.
///
/// Belongs to the transport's thread.
final class SocketTable {
    private var sockets: Set<Int32> = []

    /// A socket was made.
    func note(_ socket: Int32) { sockets.insert(socket) }

    /// The socket that connects these ports; nil when it is not known.
    func find(localPort: Int, remotePort: Int) -> Int32? {
        guard localPort > 0 else { return nil }
        for socket in sockets {
            guard let local = Self.port(socket, getsockname) else {
                sockets.remove(socket)
                continue
            }
            if local == localPort, Self.port(socket, getpeername) == remotePort { return socket }
        }
        return nil
    }

    private static func port(
        _ socket: Int32,
        _ ask: (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
    ) -> Int? {
        var storage = sockaddr_storage()
        return withUnsafeMutableBytes(of: &storage) { bytes -> Int? in
            var size = socklen_t(bytes.count)
            guard let start = bytes.baseAddress else { return nil }
            guard ask(socket, start.assumingMemoryBound(to: sockaddr.self), &size) == 0 else { return nil }
            let family = Int32(start.load(as: sockaddr.self).sa_family)
            // The port is at the same place in both families (ip(7), ipv6(7)).
            guard family == AF_INET || family == AF_INET6 else { return nil }
            return Int(UInt16(bigEndian: start.load(as: sockaddr_in.self).sin_port))
        }
    }
}
