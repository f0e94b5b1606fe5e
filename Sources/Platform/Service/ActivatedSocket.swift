// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc

/// A listening socket that the service manager opened and handed to this process (sd_listen_fds(3)).
///
/// The manager keeps it too: connections that nobody takes wait there and start the service again.
package struct ActivatedSocket: Sendable, Hashable {
    /// The descriptor, open since the process began.
    package let number: Int32
    /// What the manager calls it, `unknown` when it does not say.
    package let name: String

    package init(number: Int32, name: String) {
        self.number = number
        self.name = name
    }

    private static let first: Int32 = 3
    private static let limit: Int32 = 64

    /// The sockets that the variables LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES in `environment` tell of.
    package static func all(environment: [String: String], pid: Int32 = getpid()) -> [ActivatedSocket] {
        guard environment["LISTEN_PID"].flatMap({ Int32($0) }) == pid,
            let count = environment["LISTEN_FDS"].flatMap({ Int32($0) }), count > 0, count <= limit
        else { return [] }
        let names = (environment["LISTEN_FDNAMES"] ?? "").split(separator: ":", omittingEmptySubsequences: false)
        return (0..<count).map { index in
            let name = Int(index) < names.count && !names[Int(index)].isEmpty ? String(names[Int(index)]) : "unknown"
            return ActivatedSocket(number: first + index, name: name)
        }
    }

    /// Those of this process.
    ///
    /// Call it before threads exist: it takes the variables away, for they are not meant for our children.
    package static func ofThisProcess() -> [ActivatedSocket] {
        var environment: [String: String] = [:]
        for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] {
            if let value = getenv(name) { environment[name] = String(cString: value) }
            unsetenv(name)
        }
        return all(environment: environment)
    }

    /// Where it listens in the file system; nil when it is no listening stream socket with a path.
    package var path: String? {
        guard option(SO_DOMAIN) == AF_UNIX, option(SO_TYPE) == Int32(SOCK_STREAM.rawValue), option(SO_ACCEPTCONN) == 1
        else { return nil }
        var address = sockaddr_un()
        var length = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(number, $0, &length) }
        }
        guard result == 0 else { return nil }
        let path = withUnsafeBytes(of: address.sun_path) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        return path.hasPrefix("/") ? path : nil
    }

    private func option(_ name: Int32) -> Int32? {
        var value: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(number, SOL_SOCKET, name, &value, &length) == 0 ? value : nil
    }
}
