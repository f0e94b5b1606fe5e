// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Glibc
import Platform
import Testing

/// A service manager's socket.
private final class Ear {
    let number = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_NONBLOCK.rawValue), 0)

    init?(path: String) {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var name = Array(path.utf8)
        if path.hasPrefix("@") { name[0] = 0 }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
        let length = socklen_t(2 + name.count)
        let result = withUnsafePointer(to: address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.bind(number, $0, length) }
        }
        if result != 0 { return nil }
    }

    deinit { close(number) }

    /// The next message, nil when none waits.
    func hear() -> String? {
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = recv(number, &buffer, buffer.count, 0)
        return count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self)
    }
}

@Suite struct ServiceManagerTests {
    @Test(arguments: ["@moorage-test-", "/tmp/moorage-notify-"])
    func whatIsToldArrivesAtSocketsOfBothKinds(prefix: String) throws {
        let path = prefix + Randomness.hexadecimal(bytes: 6)
        defer { unlink(path) }
        let ear = try #require(Ear(path: path))
        let manager = try #require(ServiceManager(environment: ["NOTIFY_SOCKET": path]))
        #expect(manager.tell(["READY=1", "STATUS=a\nSTOPPING=1"], .patient))
        // A line break in a text must not become another assignment.
        #expect(ear.hear() == "READY=1\nSTATUS=a STOPPING=1")
        #expect(manager.tell([]))
        #expect(ear.hear() == nil)
    }

    @Test func aManagerThatIsGoneOrTakesNothingInIsNoReasonToWait() throws {
        let path = "@moorage-test-" + Randomness.hexadecimal(bytes: 6)
        let manager = try #require(ServiceManager(environment: ["NOTIFY_SOCKET": path]))
        #expect(!manager.tell(["WATCHDOG=1"]))
        let ear = try #require(Ear(path: path))
        let sent = (0..<10_000).prefix { _ in manager.tell(["WATCHDOG=1"]) }.count
        #expect(sent > 0 && sent < 10_000)
        #expect(ear.hear() == "WATCHDOG=1")
    }

    @Test func theWatchdogOfAnotherProcessIsNotOurs() throws {
        func timeout(_ more: [String: String]) -> Double? {
            let environment = ["NOTIFY_SOCKET": "/run/n"].merging(more) { $1 }
            return ServiceManager(environment: environment, pid: 7)?.watchdogTimeout
        }
        #expect(timeout(["WATCHDOG_USEC": "2500000", "WATCHDOG_PID": "7"]) == 2.5)
        #expect(timeout(["WATCHDOG_USEC": "2500000"]) == 2.5)
        #expect(timeout(["WATCHDOG_USEC": "2500000", "WATCHDOG_PID": "8"]) == nil)
        #expect(timeout(["WATCHDOG_USEC": "0"]) == nil)
        #expect(timeout(["WATCHDOG_USEC": "soon"]) == nil)
        #expect(ServiceManager(environment: [:]) == nil)
        #expect(ServiceManager(environment: ["NOTIFY_SOCKET": "vsock:2:1"]) == nil)
    }

    @Test func socketsAreOursOnlyWithOurNumber() {
        func sockets(_ environment: [String: String]) -> [String] {
            ActivatedSocket.all(environment: environment, pid: 7).map { "\($0.number) \($0.name)" }
        }
        let ours = ["LISTEN_PID": "7", "LISTEN_FDS": "2"]
        #expect(sockets(ours.merging(["LISTEN_FDNAMES": "control:metrics"]) { $1 }) == ["3 control", "4 metrics"])
        #expect(sockets(ours.merging(["LISTEN_FDNAMES": ":x"]) { $1 }) == ["3 unknown", "4 x"])
        #expect(sockets(ours) == ["3 unknown", "4 unknown"])
        #expect(sockets(["LISTEN_PID": "8", "LISTEN_FDS": "1"]).isEmpty)
        #expect(sockets(["LISTEN_PID": "7", "LISTEN_FDS": "-1"]).isEmpty)
        #expect(sockets(["LISTEN_PID": "7", "LISTEN_FDS": "100000"]).isEmpty)
    }

    @Test func onlyAListeningStreamSocketWithAPathIsTaken() throws {
        let path = "/tmp/moorage-activated-" + Randomness.hexadecimal(bytes: 6)
        let listener = try UnixSocket.listen(at: path)
        defer { unlink(path) }
        #expect(activated(listener.raw).path == path)
        let connection = try UnixSocket.connect(to: path)
        #expect(activated(connection.raw).path == nil)
        let datagram = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        defer { close(datagram) }
        #expect(activated(datagram).path == nil)
    }

    private func activated(_ number: Int32) -> ActivatedSocket { ActivatedSocket(number: number, name: "control") }
}
