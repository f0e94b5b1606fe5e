// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Glibc
internal import Platform

/// Answers `GET /metrics` on a unix socket or a loopback port, one client at a time: enough for whoever collects metrics.
final class MetricsServer: Sendable {
    /// The longest request, in bytes.
    private static let requestLimit = 8192
    /// How long a client may take for its request, and for taking the answer, in seconds.
    private static let patience = 3.0

    private let listener: FileDescriptor
    private let path: String?
    /// Where it listens, for the log.
    let address: String
    private let text: @Sendable () -> String
    private let isStopped = Lock(false)

    /// Listens; `text` makes the answer.
    init(_ place: ListeningPlace, text: @escaping @Sendable () -> String) throws(SystemError) {
        self.text = text
        switch place {
        case .path(let path):
            listener = try UnixSocket.listen(at: path, backlog: 8)
            self.path = path
            address = path
        case .loopback(let isVersion6, let port):
            let made = try LoopbackSocket.listen(isVersion6: isVersion6, port: port)
            address = (isVersion6 ? "[::1]:" : "127.0.0.1:") + "\(made.port)"
            listener = made.take()
            path = nil
        }
    }

    func start() throws(SystemError) {
        try Thread.detached(name: "metrics", stackSize: 512 << 10) { self.serve() }
    }

    func stop() {
        isStopped.withLock { $0 = true }
        UnixSocket.shutdown(listener.raw)
        if let path { try? Files.removeIfPresent(path) }
    }

    private func serve() {
        while !isStopped.withLock({ $0 }) {
            do throws(SystemError) {
                let client = try UnixSocket.accept(listener.raw)
                answer(client)
            } catch {
                if isStopped.withLock({ $0 }) { return }
                Log.warning("metrics", "accepting a client: \(error)")
                usleep(100_000)
            }
        }
    }

    private func answer(_ client: borrowing FileDescriptor) {
        guard let request = receive(client) else { return }
        let words = request.split(separator: "\r\n").first?.split(separator: " ").map(String.init) ?? []
        let reply: String
        if words.count != 3 || !words[2].hasPrefix("HTTP/1.") {
            reply = Self.reply("400 Bad Request", "not HTTP\n")
        } else if words[0] != "GET" && words[0] != "HEAD" {
            reply = Self.reply("405 Method Not Allowed", "GET only\n", "Allow: GET, HEAD\r\n")
        } else if words[1].split(separator: "?").first != "/metrics" {
            reply = Self.reply("404 Not Found", "see /metrics\n")
        } else {
            reply = Self.reply("200 OK", text(), hasBody: words[0] == "GET")
        }
        try? UnixSocket.send(Array(reply.utf8), on: client.raw, timeout: Self.patience)
    }

    private static func reply(_ status: String, _ body: String, _ fields: String = "", hasBody: Bool = true) -> String {
        "HTTP/1.1 \(status)\r\nContent-Type: \(MetricsText.contentType)\r\nContent-Length: \(body.utf8.count)\r\n"
            + "Connection: close\r\n\(fields)\r\n" + (hasBody ? body : "")
    }

    /// The head of a request; nil when none came in time.
    private func receive(_ client: borrowing FileDescriptor) -> String? {
        let end = monotonicSeconds() + Self.patience
        var bytes: [UInt8] = []
        while bytes.count < Self.requestLimit {
            let left = end - monotonicSeconds()
            guard left > 0, (try? UnixSocket.waitReadable(client.raw, timeout: left)) == true else { return nil }
            var chunk = [UInt8](repeating: 0, count: 1024)
            let count = recv(client.raw, &chunk, chunk.count, 0)
            guard count > 0 else { return nil }
            bytes += chunk[..<count]
            let text = String(decoding: bytes, as: UTF8.self)
            if text.utf8.count >= 4, text.hasSuffix("\r\n\r\n") { return text }
        }
        return nil
    }
}

/// A listening TCP socket that only this machine can reach.
struct LoopbackSocket: ~Copyable {
    private var descriptor: FileDescriptor
    let port: UInt16

    static func listen(isVersion6: Bool, port: UInt16) throws(SystemError) -> LoopbackSocket {
        let family = isVersion6 ? AF_INET6 : AF_INET
        let number = socket(family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard number >= 0 else { throw SystemError.last("socket") }
        let descriptor = FileDescriptor(owning: number)
        var yes: Int32 = 1
        setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        let result = isVersion6 ? bind6(number, port) : bind4(number, port)
        let place = isVersion6 ? "[::1]:\(port)" : "127.0.0.1:\(port)"
        if result != 0 { throw SystemError.last("bind", place) }
        if Glibc.listen(number, 8) != 0 { throw SystemError.last("listen", place) }
        return LoopbackSocket(descriptor: descriptor, port: chosenPort(number, isVersion6) ?? port)
    }

    consuming func take() -> FileDescriptor { descriptor }

    private static func bind4(_ number: Int32, _ port: UInt16) -> Int32 {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr = in_addr(s_addr: UInt32(0x7F00_0001).bigEndian)
        return withUnsafeBytes(of: &address) { bytes in
            bind(number, bytes.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t(bytes.count))
        }
    }

    private static func bind6(_ number: Int32, _ port: UInt16) -> Int32 {
        var address = sockaddr_in6()
        address.sin6_family = sa_family_t(AF_INET6)
        address.sin6_port = port.bigEndian
        address.sin6_addr = in6addr_loopback
        return withUnsafeBytes(of: &address) { bytes in
            bind(number, bytes.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t(bytes.count))
        }
    }

    private static func chosenPort(_ number: Int32, _ isVersion6: Bool) -> UInt16? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let result = withUnsafeMutableBytes(of: &storage) { bytes in
            getsockname(number, bytes.assumingMemoryBound(to: sockaddr.self).baseAddress, &length)
        }
        guard result == 0 else { return nil }
        // The port has the same place in both.
        return withUnsafeBytes(of: &storage) { UInt16(bigEndian: $0.load(fromByteOffset: 2, as: UInt16.self)) }
    }
}
