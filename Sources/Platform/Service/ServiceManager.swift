// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc

/// The service manager that started this process and wants to hear how it is (sd_notify(3)), without its library.
///
/// What cannot be delivered is dropped: no service may fail because nobody listens.
package final class ServiceManager: Sendable {
    /// Whether a message is worth waiting for.
    package enum Delivery: Sendable {
        /// Never waits: a manager that takes nothing in hears it with the next one.
        case atOnce
        /// Waits some seconds for a manager that is busy: what is said only once.
        case patient
    }

    private static let patience = 5

    private let path: String
    private let socket: FileDescriptor
    /// How long the manager waits for a sign of life before it kills the process, in seconds; nil: for ever.
    package let watchdogTimeout: Double?

    /// The one that `environment` names; nil when there is none, or its socket cannot be used.
    ///
    /// WATCHDOG_PID guards against variables that were inherited from somebody else's service.
    package init?(environment: [String: String], pid: Int32 = getpid()) {
        guard let path = environment["NOTIFY_SOCKET"], path.hasPrefix("/") || path.hasPrefix("@") else { return nil }
        let type = Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue)
        let number = Glibc.socket(AF_UNIX, type, 0)
        guard number >= 0 else { return nil }
        self.path = path
        socket = FileDescriptor(owning: number)
        var limit = timeval(tv_sec: Self.patience, tv_usec: 0)
        setsockopt(number, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        let isForUs = environment["WATCHDOG_PID"].map { Int32($0) == pid } ?? true
        let microseconds = environment["WATCHDOG_USEC"].flatMap { UInt64($0) } ?? 0
        watchdogTimeout = isForUs && microseconds > 0 ? Double(microseconds) / 1e6 : nil
    }

    /// The one of this process.
    ///
    /// Call it before threads exist: it takes the variables away, so that no child of ours speaks in our name.
    package static func ofThisProcess() -> ServiceManager? {
        let names = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]
        var environment: [String: String] = [:]
        for name in names {
            if let value = getenv(name) { environment[name] = String(cString: value) }
            unsetenv(name)
        }
        return ServiceManager(environment: environment)
    }

    /// Tells assignments such as `READY=1`; false when they were not delivered.
    @discardableResult
    package func tell(_ assignments: [String], _ delivery: Delivery = .atOnce) -> Bool {
        guard !assignments.isEmpty else { return true }
        // A line break would begin another assignment.
        let lines = assignments.map { line in String(line.map { $0.isNewline ? " " : $0 }) }
        let bytes = Array(lines.joined(separator: "\n").utf8)
        let flags = Int32(MSG_NOSIGNAL) | (delivery == .atOnce ? Int32(MSG_DONTWAIT) : 0)
        return withAddress { address, length in
            while true {
                let count = bytes.withUnsafeBytes {
                    sendto(socket.raw, $0.baseAddress, $0.count, flags, address, length)
                }
                if count >= 0 { return true }
                if errno != EINTR { return false }
            }
        }
    }

    /// Calls `body` with the address of the manager's socket; `@` stands for the abstract name space (unix(7)).
    private func withAddress(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Bool) -> Bool {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var name = Array(path.utf8)
        let isAbstract = name.first == UInt8(ascii: "@")
        if isAbstract { name[0] = 0 }
        guard name.count < MemoryLayout.size(ofValue: address.sun_path) else { return false }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
        // An abstract name ends where the address does, a path with a zero.
        let offset = MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? 2
        let length = socklen_t(offset + name.count + (isAbstract ? 0 : 1))
        return withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
        }
    }
}
