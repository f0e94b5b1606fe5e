// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
internal import Platform

/// An IPv4 or IPv6 address with a port.
package struct SocketAddress: @unchecked Sendable, CustomStringConvertible {
    // sockaddr_storage is plain bytes; it is only not marked Sendable.
    var storage: sockaddr_storage
    var length: socklen_t

    /// The addresses of `host`, a literal or a name; throws EINVAL when there are none (getaddrinfo(3)).
    package static func resolve(host: String, port: UInt16) throws(SystemError) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let result = getaddrinfo(host, String(port), &hints, &list)
        guard result == 0 else {
            let reason = String(cString: gai_strerror(result))
            throw SystemError(code: EINVAL, operation: "getaddrinfo", subject: host, reason: reason)
        }
        defer { freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var next = list
        while let entry = next?.pointee {
            if let address = entry.ai_addr { addresses.append(SocketAddress(address, entry.ai_addrlen)) }
            next = entry.ai_next
        }
        return addresses
    }

    init(_ address: UnsafePointer<sockaddr>, _ length: socklen_t) {
        storage = sockaddr_storage()
        self.length = min(length, socklen_t(MemoryLayout<sockaddr_storage>.size))
        memcpy(&storage, address, Int(self.length))
    }

    /// The address a socket is bound to (getsockname(2)).
    init(boundTo socket: Int32) throws(SystemError) {
        storage = sockaddr_storage()
        length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let result = withUnsafeMutablePointer(to: &storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &length) }
        }
        if result != 0 { throw SystemError.last("getsockname") }
    }

    func withPointer<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        withUnsafePointer(to: storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
        }
    }

    var family: Int32 { Int32(storage.ss_family) }

    /// The port in host order.
    package var port: UInt16 {
        withUnsafeBytes(of: storage) { UInt16($0[2]) << 8 | UInt16($0[3]) }
    }

    private var ipv4: [UInt8] { withUnsafeBytes(of: storage) { Array($0[4..<8]) } }
    private var ipv6: [UInt8] { withUnsafeBytes(of: storage) { Array($0[8..<24]) } }

    /// Whether the address is this machine's own: 127.0.0.0/8 or ::1, also when mapped.
    package var isLoopback: Bool {
        if family == AF_INET { return ipv4[0] == 127 }
        guard family == AF_INET6 else { return false }
        let bytes = ipv6
        if bytes == [UInt8](repeating: 0, count: 15) + [1] { return true }
        return bytes[..<12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF] && bytes[12] == 127
    }

    /// The address without its port, an IPv6 address in brackets.
    package var host: String {
        if family == AF_INET { return ipv4.map(String.init).joined(separator: ".") }
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let bytes = ipv6
        _ = bytes.withUnsafeBytes { inet_ntop(AF_INET6, $0.baseAddress, &text, socklen_t(INET6_ADDRSTRLEN)) }
        return "[" + String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self) + "]"
    }

    package var description: String { "\(host):\(port)" }
}
