// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc

/// Through which interface a server is reached.
package enum RemoteRoute {
    /// The interfaces that the kernel sends to some addresses by, in their order.
    ///
    /// Empty where there is no way, or the addresses are this machine's own.
    package static func interfaces(to addresses: [String]) -> [String] {
        addresses.compactMap { RouteReader.interface(to: $0) }
    }

    /// The addresses of a host as numbers, the best first (getaddrinfo(3), RFC 6724); empty when nobody knows it.
    ///
    /// A name is looked up, which may take seconds.
    package static func addresses(of host: String) -> [String] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var first: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, &hints, &first) == 0 else { return [] }
        defer { freeaddrinfo(first) }
        var found: [String] = []
        var next = first
        while let entry = next?.pointee, found.count < 16 {
            next = entry.ai_next
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            let flags = NI_NUMERICHOST
            guard getnameinfo(entry.ai_addr, entry.ai_addrlen, &text, socklen_t(text.count), nil, 0, flags) == 0 else {
                continue
            }
            // What follows a percent sign is the interface that an address on a link holds for.
            found.append(
                String(decoding: text.prefix { $0 != 0 && $0 != 0x25 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            )
        }
        return found
    }
}
