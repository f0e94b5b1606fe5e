// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform
internal import TestSupport

/// `moorage-fault-proxy --upstream HOST:PORT [--listen HOST:PORT] [--control HOST:PORT]`.
@main
struct Main {
    static let usage = "moorage-fault-proxy --upstream HOST:PORT [--listen HOST:PORT] [--control HOST:PORT]"

    static func main() {
        var addresses = ["--listen": SocketAddress(port: 0), "--control": SocketAddress(port: 0)]
        var words = CommandLine.arguments.dropFirst()
        while let option = words.popFirst() {
            guard ["--upstream", "--listen", "--control"].contains(option),
                let address = words.popFirst().flatMap({ SocketAddress($0) })
            else { fail("usage: \(usage)", status: 2) }
            addresses[option] = address
        }
        guard let upstream = addresses["--upstream"], let listen = addresses["--listen"],
            let control = addresses["--control"]
        else { fail("usage: \(usage)", status: 2) }
        run(upstream, listen, control)
    }

    private static func run(_ upstream: SocketAddress, _ listen: SocketAddress, _ control: SocketAddress) -> Never {
        do throws(SystemError) {
            let proxy = try FaultProxy(upstream: upstream, listen: listen)
            let server = try ControlServer(proxy, listen: control)
            write(1, "listening on \(proxy.address)\ncontrol on \(server.address)\n")
            while true { pause() }
        } catch {
            fail("moorage-fault-proxy: \(error)", status: 1)
        }
    }

    private static func fail(_ message: String, status: Int32) -> Never {
        write(2, message + "\n")
        exit(status)
    }

    private static func write(_ number: Int32, _ text: String) {
        let bytes = Array(text.utf8)
        _ = bytes.withUnsafeBytes { Glibc.write(number, $0.baseAddress, $0.count) }
    }
}
