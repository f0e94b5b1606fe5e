// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
internal import Platform

/// The interfaces that connect this machine with others, as far as connections depend on them: which are up, and with
/// which addresses.
struct NetworkPicture: Hashable {
    private struct Address: Hashable {
        var interface: String
        /// Whether a cable is plugged in, a station found (IFF_RUNNING).
        var isRunning: Bool
        var bytes: [UInt8]
    }

    private var addresses: Set<Address> = []
    /// Where what is meant for other networks leaves.
    private var way: String?

    /// What the kernel says now; nil where it says nothing.
    init?() {
        var first: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&first) == 0 else { return nil }
        defer { freeifaddrs(first) }
        var next = first
        while let entry = next?.pointee {
            next = entry.ifa_next
            guard entry.ifa_flags & UInt32(IFF_UP) != 0, entry.ifa_flags & UInt32(IFF_LOOPBACK) == 0,
                let address = entry.ifa_addr, let name = entry.ifa_name,
                let bytes = Self.bytes(address)
            else { continue }
            let isRunning = entry.ifa_flags & UInt32(IFF_RUNNING) != 0
            addresses.insert(Address(interface: String(cString: name), isRunning: isRunning, bytes: bytes))
        }
        way = RouteReader.interface()
    }

    private static func bytes(_ address: UnsafeMutablePointer<sockaddr>) -> [UInt8]? {
        let raw = UnsafeRawPointer(address)
        switch Int32(address.pointee.sa_family) {
        case AF_INET: return withUnsafeBytes(of: raw.load(as: sockaddr_in.self).sin_addr) { Array($0) }
        case AF_INET6: return withUnsafeBytes(of: raw.load(as: sockaddr_in6.self).sin6_addr) { Array($0) }
        default: return nil
        }
    }
}

/// Tells when the machine's network is another one than before; for those who need to know no more than that.
package final class NetworkWatcher: Sendable {
    /// How long a change has to be over before it is told, in seconds: they come in groups.
    private static let pause: Int32 = 250

    private let isStopping = Lock(false)

    package init() {}

    /// Calls `onChange` on a thread of its own for every change, until ``stop()``; not where the kernel does not tell.
    package func start(_ onChange: @escaping @Sendable () -> Void) throws(SystemError) {
        try Thread.detached(name: "network", stackSize: 128 << 10) { [self] in
            guard let monitor = KernelMonitor.routes() else { return }
            var picture = NetworkPicture()
            while !isStopping.withLock({ $0 }) {
                var polled = [monitor.polled]
                // A thread that is not told otherwise looks now and then whether it is to end.
                guard poll(&polled, 1, 60_000) > 0, monitor.drain() else { continue }
                _ = poll(nil, 0, Self.pause)
                _ = monitor.drain()
                let now = NetworkPicture()
                guard now != picture, !isStopping.withLock({ $0 }) else { continue }
                picture = now
                onChange()
            }
        }
    }

    /// Tells no more.
    package func stop() {
        isStopping.withLock { $0 = true }
    }
}
