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
    /// Low-water marks other than ``LowWaterMark/none``, in bytes.
    private var marks: [Int32: Int] = [:]

    /// A socket was made.
    func note(_ socket: Int32) {
        sockets.insert(socket)
        marks[socket] = nil
    }

    var hasMarks: Bool { !marks.isEmpty }

    /// Has the kernel tell that a connection can be read once so many bytes are there (`SO_RCVLOWAT`).
    ///
    /// Nobody waits for those of another transfer: where several have these ports none gets a mark.
    func setMark(_ bytes: Int, localPort: Int, remotePort: Int) {
        let found = find(localPort: localPort, remotePort: remotePort)
        for socket in found { setMark(found.count == 1 ? bytes : LowWaterMark.none, of: socket) }
    }

    private func setMark(_ bytes: Int, of socket: Int32) {
        guard marks[socket, default: LowWaterMark.none] != bytes else { return }
        var value = Int32(bytes)
        guard setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &value, socklen_t(MemoryLayout<Int32>.size)) == 0 else {
            return
        }
        marks[socket] = bytes == LowWaterMark.none ? nil : bytes
    }

    /// The sockets that connect these ports: one, but where several remote addresses have the same port and the kernel gave
    /// the same local port to connections to two of them; none when it is not known.
    func find(localPort: Int, remotePort: Int) -> [Int32] {
        guard localPort > 0 else { return [] }
        var found: [Int32] = []
        for socket in sockets {
            guard let local = Self.port(socket, getsockname) else {
                sockets.remove(socket)
                marks[socket] = nil
                continue
            }
            if local == localPort, Self.port(socket, getpeername) == remotePort { found.append(socket) }
        }
        return found
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
