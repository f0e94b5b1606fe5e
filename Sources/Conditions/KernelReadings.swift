// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import Glibc
internal import Platform
internal import Policy

/// What the kernel says of routes.
enum RouteReader {
    /// Addresses for documentation (RFC 5737, RFC 3849): hardly a network has them, so the way to them is the way out.
    private static let elsewhere = ["203.0.113.1", "2001:db8::1"]

    /// The name of the interface that what is meant for other networks leaves by; nil when there is none.
    static func interface() -> String? {
        for address in elsewhere { if let name = interface(to: address) { return name } }
        return nil
    }

    /// The name of the interface that an address in numbers is reached through; nil when there is none but loopback.
    static func interface(to address: String) -> String? {
        let index = moorage_route_interface(address)
        guard index > 0 else { return nil }
        var name = [CChar](repeating: 0, count: Int(IF_NAMESIZE))
        guard if_indextoname(UInt32(index), &name) != nil else { return nil }
        let text = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return text == "lo" ? nil : text
    }

    static func read() -> MachineFacts.Route {
        let answers = elsewhere.map { moorage_route_interface($0) }
        if interface() != nil { return .standard }
        switch hasAddress() {
        case true?: return .local
        case false? where !answers.contains(-1): return MachineFacts.Route.none
        default: return .unknown
        }
    }

    /// Whether an interface other than loopback is up and has an address; nil when nobody tells.
    private static func hasAddress() -> Bool? {
        var first: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&first) == 0 else { return nil }
        defer { freeifaddrs(first) }
        var next = first
        while let entry = next?.pointee {
            next = entry.ifa_next
            let flags = entry.ifa_flags
            guard flags & UInt32(IFF_UP) != 0, flags & UInt32(IFF_LOOPBACK) == 0,
                let family = entry.ifa_addr?.pointee.sa_family
            else { continue }
            if family == sa_family_t(AF_INET) || family == sa_family_t(AF_INET6) { return true }
        }
        return false
    }
}

/// What the files of /sys/class/power_supply say.
struct SupplyReader {
    /// `/sys`, or what stands in for it.
    let root: String

    /// The most folders that are read.
    private static let limit = 64

    func read() -> [SupplyReading] {
        let folder = root + "/class/power_supply"
        guard let names = try? Files.names(in: folder) else { return [] }
        return names.sorted().prefix(Self.limit).compactMap { name in
            let attributes = ["type", "scope", "online", "present", "status", "capacity"].compactMap { attribute in
                value("\(folder)/\(name.string)/\(attribute)").map { (attribute, $0) }
            }
            return SupplyReading(attributes: Dictionary(attributes) { first, _ in first })
        }
    }

    private func value(_ path: String) -> String? {
        guard let bytes = try? Files.read(path, limit: 4096) else { return nil }
        return String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self)
    }
}

/// A netlink socket that wakes when the kernel has news; what they are is looked up.
final class KernelMonitor {
    private let socket: FileDescriptor

    /// Nil where the kernel does not let us listen.
    init?(_ number: Int32) {
        guard number >= 0 else { return nil }
        socket = FileDescriptor(owning: number)
    }

    static func routes() -> KernelMonitor? { KernelMonitor(moorage_route_monitor()) }
    static func devices() -> KernelMonitor? { KernelMonitor(moorage_device_monitor()) }

    var polled: pollfd { pollfd(fd: socket.raw, events: Int16(POLLIN), revents: 0) }

    /// Throws away what has come, a bounded number of messages; whether there was any.
    ///
    /// ENOBUFS, which says that some were lost, is news too.
    func drain() -> Bool {
        var hasNews = false
        var buffer = [UInt8](repeating: 0, count: 8192)
        for _ in 0..<1000 {
            let count = recv(socket.raw, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            guard count > 0 || count < 0 && (errno == ENOBUFS || errno == EINTR) else { break }
            hasNews = true
        }
        return hasNews
    }
}
