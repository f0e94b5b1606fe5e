// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import CurlTransport
import Glibc
import HTTPWire
import Platform
import TestSupport
import Testing

@Suite(.serialized) struct CurlTransportTests {
    static let fine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    /// The kind of error a request ends with, nil when it succeeds.
    static func failure(_ request: TransferRequest, limit: Int = 1 << 20) throws -> TransferError.Kind? {
        let transport = try CurlTransport()
        do throws(TransferError) {
            _ = try transport.perform(request, limit: limit)
            return nil
        } catch {
            return error.kind
        }
    }

    @Test func requestsAreSentAsTheyAre() throws {
        let server = try ScriptedServer { connection, _ in
            while connection.request() != nil { connection.write(Self.fine) }
        }
        let transport = try CurlTransport()
        var request = TransferRequest(method: "PUT", url: server.url + "/a/../b//c%20d?x=")
        request.fields = HTTPFields([
            .init(name: "Host", value: "example.test"), .init(name: "X-Empty", value: ""),
            .init(name: "Content-Length", value: "999"), .init(name: "X-Text", value: "é"),
        ])
        request.body = .bytes(Array("hello".utf8))
        let response = try transport.perform(request)
        #expect(response.status == 200 && response.body == Array("ok".utf8))
        #expect(response.bytesSent == 5)
        for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
            let answer = try transport.perform(TransferRequest(method: method, url: server.url + "/x"))
            #expect(answer.status == 200)
            if method == "HEAD" { break }
        }
        let heads = server.heads.inspect { $0 }
        #expect(heads[0].startLine == "PUT /a/../b//c%20d?x= HTTP/1.1")
        #expect(heads[0].value(of: "host") == "example.test")
        #expect(heads[0].value(of: "content-length") == "5")
        #expect(heads[0].value(of: "accept-encoding") == "identity")
        #expect(heads[0].value(of: "x-text") == "é")
        #expect(heads[0].value(of: "x-empty") == "")
        #expect(heads[0].value(of: "expect") == nil)
        #expect(heads[1].startLine == "GET /x HTTP/1.1")
        #expect(heads[1].value(of: "content-length") == nil)
        #expect(server.connections.inspect { $0 } == 1, "connections are kept")
    }

    @Test func anEmptyBodyIsAnnounced() throws {
        let server = try ScriptedServer { connection, _ in
            while connection.request() != nil { connection.write(Self.fine) }
        }
        let transport = try CurlTransport()
        _ = try transport.perform(TransferRequest(method: "POST", url: server.url, body: .bytes([])))
        #expect(server.heads.inspect { $0.first?.value(of: "content-length") } == "0")
    }

    @Test func interimAnswersArrive() throws {
        let server = try ScriptedServer { connection, _ in
            _ = connection.request()
            connection.write("HTTP/1.1 104 Upload Resumption Supported\r\nLocation: /u\r\n\r\n")
            connection.write("HTTP/1.1 104 \r\nUpload-Offset: 5\r\n\r\n" + Self.fine)
            connection.waitForClose()
        }
        let seen = Monitor([(Int, HTTPFields)]())
        let transport = try CurlTransport()
        let response = try transport.perform(
            TransferRequest(method: "PUT", url: server.url, body: .bytes([1])),
            informational: { status, fields in seen.update { $0.append((status, fields)) } }
        )
        #expect(response.status == 200 && response.fields["location"] == nil)
        let interim = seen.inspect { $0 }
        #expect(interim.map(\.0) == [104, 104])
        #expect(interim.first?.1["Location"] == "/u" && interim.last?.1["upload-offset"] == "5")
    }

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "HTTP/1.1 200 OK\r\nContent-Le", "",
    ])
    func truncationIsNeverSilent(answer: String) throws {
        let server = try ScriptedServer { connection, _ in
            _ = connection.request()
            connection.write(answer)
        }
        #expect(try Self.failure(TransferRequest(method: "GET", url: server.url)) == .connectionLost)
    }

    @Test func noServerIsUnreachable() throws {
        let listener = try LoopbackSocket.bound(to: SocketAddress(port: 0), isListening: false)
        let port = LoopbackSocket.port(of: listener)
        #expect(try Self.failure(TransferRequest(method: "GET", url: "http://127.0.0.1:\(port)/")) == .unreachable)
        #expect(try Self.failure(TransferRequest(method: "GET", url: "http://no-such-host.invalid/")) == .unreachable)
    }

    @Test func badRequestsAreRefused() throws {
        let url = "http://127.0.0.1:1/"
        var forged = TransferRequest(method: "GET", url: url)
        forged.fields.append("X-A", "b\r\nX-Forged: 1")
        #expect(try Self.failure(forged) == .invalidRequest)
        #expect(try Self.failure(TransferRequest(method: "GET\r\n", url: url)) == .invalidRequest)
        #expect(try Self.failure(TransferRequest(method: "GET", url: url + "a b")) == .invalidRequest)
        #expect(try Self.failure(TransferRequest(method: "GET", url: "file:///etc/passwd")) == .invalidRequest)
    }

    @Test func silenceTimesOut() throws {
        let server = try ScriptedServer { connection, index in
            _ = connection.request()
            if index == 2 { connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc") }
            connection.waitForClose()
        }
        var answer = TransferRequest(method: "GET", url: server.url)
        answer.answerTimeout = 0.5
        #expect(try Self.failure(answer) == .timeout)
        var stall = TransferRequest(method: "GET", url: server.url)
        stall.stallTimeout = 0.5
        #expect(try Self.failure(stall) == .timeout)
        var total = TransferRequest(method: "GET", url: server.url)
        total.totalTimeout = 0.5
        #expect(try Self.failure(total) == .timeout)
    }

    @Test func timeInWhichNobodyTookAnswersIsNotTheServers() throws {
        let isBack = Monitor(false)
        let server = try ScriptedServer { connection, _ in
            _ = connection.request()
            _ = isBack.wait(timeout: 20) { $0 ? true : nil }
            // Long enough for those who wait to look at their watches.
            usleep(500_000)
            connection.write(Self.fine)
            connection.waitForClose()
        }
        let transport = try CurlTransport()
        transport.schedule(after: 0.3) {
            usleep(3_500_000)
            isBack.update { $0 = true }
        }
        var request = TransferRequest(method: "GET", url: server.url)
        request.answerTimeout = 2
        request.totalTimeout = 3
        #expect(try transport.perform(request).status == 200)
    }

    @Test func aTrickleTimesOutWhereMoreIsAskedFor() throws {
        let server = try ScriptedServer { connection, _ in
            _ = connection.request()
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n")
            for _ in 0..<12 {
                connection.write("a")
                usleep(250_000)
            }
            connection.waitForClose()
        }
        var request = TransferRequest(method: "GET", url: server.url)
        request.stallTimeout = 1
        #expect(try Self.failure(request) == nil)
        request.leastBytes = 1024
        #expect(try Self.failure(request) == .timeout)
    }

    @Test func whatIsNoAnswerIsNotTakenForABadRequest() throws {
        let server = try ScriptedServer { connection, index in
            _ = connection.request()
            let line = "X-A: " + String(repeating: "a", count: 300_000)
            connection.write(index == 1 ? "no status line at all\r\n\r\n" : "HTTP/1.1 200 OK\r\n\(line)\r\n\r\n")
        }
        for _ in 0..<2 {
            let failure = try Self.failure(TransferRequest(method: "GET", url: server.url))
            #expect(failure == .protocolViolation)
        }
    }

    @Test func answersAreBounded() throws {
        let server = try ScriptedServer { connection, index in
            _ = connection.request()
            if index == 1 {
                connection.write(
                    "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + String(repeating: "a", count: 1000)
                )
            } else {
                connection.write("HTTP/1.1 200 OK\r\n" + String(repeating: "X-A: b\r\n", count: 300) + "\r\n")
            }
            connection.waitForClose()
        }
        #expect(try Self.failure(TransferRequest(method: "GET", url: server.url), limit: 999) == .protocolViolation)
        #expect(try Self.failure(TransferRequest(method: "GET", url: server.url)) == .protocolViolation)
    }

    @Test func redirectsAreNotFollowed() throws {
        let server = try ScriptedServer { connection, _ in
            while connection.request() != nil {
                connection.write("HTTP/1.1 307 Go\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")
            }
        }
        let transport = try CurlTransport()
        let response = try transport.perform(TransferRequest(method: "GET", url: server.url))
        #expect(response.status == 307 && response.fields["location"] == "/elsewhere")
        #expect(server.heads.inspect { $0.count } == 1)
    }

    @Test(arguments: [true, false], [nil, "", "data"])
    func aDeadKeptConnectionIsReplacedOnlyForWhatMayBeRepeated(isReplayable: Bool, content: String?) throws {
        let server = try ScriptedServer { connection, index in
            _ = connection.request()
            connection.write(Self.fine)
            // The first connection takes a second request whole, and dies without an answer.
            _ = connection.request()
            if index > 1 { connection.write(Self.fine) }
        }
        let transport = try CurlTransport()
        _ = try transport.perform(TransferRequest(method: "GET", url: server.url + "/first"))
        let body = content.map { TransferBody.bytes(Array($0.utf8)) }
        var request = TransferRequest(method: "PUT", url: server.url + "/second", body: body)
        request.isReplayable = isReplayable
        do throws(TransferError) {
            let response = try transport.perform(request)
            #expect(isReplayable && response.status == 200)
        } catch {
            #expect(!isReplayable && error.kind == .connectionLost)
        }
        let count = server.heads.inspect { $0.count { $0.path == "/second" } }
        #expect(count == (isReplayable ? 2 : 1))
    }

    /// The second connection is libcurl's own; that it cannot be made says nothing of the first.
    @Test(arguments: [nil, "data"])
    func aRequestIsNotCalledUnsentWhereOnlyItsRepetitionWas(content: String?) throws {
        let server = Monitor<ScriptedServer?>(nil)
        let started = try ScriptedServer { connection, _ in
            _ = connection.request()
            connection.write(Self.fine)
            _ = connection.request()
            server.inspect { $0 }?.stop()
            // Until it does not listen any more.
            usleep(200_000)
        }
        server.inspect { $0 = started }
        defer { server.inspect { $0 = nil } }
        let transport = try CurlTransport()
        _ = try transport.perform(TransferRequest(method: "GET", url: started.url))
        let body = content.map { TransferBody.bytes(Array($0.utf8)) }
        var request = TransferRequest(method: "PUT", url: started.url, body: body)
        request.isReplayable = false
        do throws(TransferError) {
            _ = try transport.perform(request)
            Issue.record("nobody answers it")
        } catch {
            #expect(error.kind == .connectionLost)
        }
    }

    @Test func whatMayNotBeRepeatedUsesAKeptConnection() throws {
        let server = try ScriptedServer { connection, index in
            while connection.request() != nil {
                connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\(index)")
            }
        }
        let transport = try CurlTransport()
        for method in ["GET", "DELETE", "PUT"] {
            var request = TransferRequest(method: method, url: server.url)
            request.isReplayable = false
            #expect(try transport.perform(request).body == Array("1".utf8))
        }
    }

    @Test func filesAreSentByRange() throws {
        let server = try ScriptedServer { connection, _ in
            guard let (_, body) = connection.request() else { return }
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n")
            _ = connection.stream.write(body)
            connection.waitForClose()
        }
        let path = "/tmp/moorage-transport-\(Randomness.hexadecimal(bytes: 8))"
        let file = try FileDescriptor.open(path, O_RDWR | O_CREAT)
        try Files.removeIfPresent(path)
        let data = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 >> 4) }
        try file.write(data)
        let progress = Monitor([Int64]())
        let transport = try CurlTransport()
        let range = ByteRange(1000, 2_900_000)
        let request = TransferRequest(
            method: "PUT",
            url: server.url,
            body: .file(descriptor: file.raw, range: range)
        )
        let response = try transport.perform(
            request,
            limit: 4 << 20,
            progress: { count in progress.update { $0.append(count) } }
        )
        #expect(response.body == Array(data[1000..<2_900_000]))
        #expect(response.bytesSent == range.count)
        let steps = progress.inspect { $0 }
        #expect(steps.last == range.count && steps == steps.sorted())
        var short = request
        short.body = .file(descriptor: file.raw, range: ByteRange(2_000_000, 3_000_001))
        #expect(try Self.failure(short) == .localInput)
        withExtendedLifetime(file) {}
    }

    @Test func aRefusalBeforeTheBodySavesSendingIt() throws {
        let server = try ScriptedServer { connection, index in
            guard let head = connection.head() else { return }
            #expect(head.value(of: "expect") == "100-continue")
            connection.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
        let transport = try CurlTransport()
        var request = TransferRequest(method: "PUT", url: server.url, body: .bytes([UInt8](repeating: 1, count: 1000)))
        request.expectTimeout = 5
        let response = try transport.perform(request)
        #expect(response.status == 403 && response.bytesSent == 0)
    }

    @Test func aRefusedExpectationIsRepeatedWithout() throws {
        let server = try ScriptedServer { connection, _ in
            while let head = connection.head() {
                if head.value(of: "expect") != nil {
                    connection.write("HTTP/1.1 417 No\r\nContent-Length: 2\r\n\r\nno")
                    continue
                }
                _ = connection.stream.readBody(head.requestFraming)
                connection.write(Self.fine)
            }
        }
        let transport = try CurlTransport()
        var request = TransferRequest(method: "PUT", url: server.url, body: .bytes([1, 2, 3]))
        request.expectTimeout = 5
        let response = try transport.perform(request)
        #expect(response.status == 200)
        #expect(response.body == Array("ok".utf8))
    }

    @Test func transfersCanBeCancelled() throws {
        let server = try ScriptedServer { connection, _ in
            _ = connection.request()
            connection.waitForClose()
        }
        let transport = try CurlTransport()
        do throws(TransferError) {
            _ = try transport.perform(
                TransferRequest(method: "GET", url: server.url),
                started: { transfer in
                    transport.schedule(after: 0.1) { transfer.cancel() }
                }
            )
            Issue.record("a cancelled transfer succeeded")
        } catch {
            #expect(error.kind == .cancelled)
        }
    }

    @Test func theEndOfTheTransportEndsItsTransfers() throws {
        let server = try ScriptedServer { connection, _ in
            _ = connection.request()
            connection.waitForClose()
        }
        let delegate = EndObserver()
        var transport: CurlTransport? = try CurlTransport()
        transport?.start(TransferRequest(method: "GET", url: server.url), delegate: delegate)
        _ = server.heads.wait(timeout: 10) { $0.isEmpty ? nil : true }
        transport = nil
        #expect(delegate.end.wait(timeout: 10) { $0 } == .cancelled)
    }

    @Test func manyTransfersShareAFewConnections() throws {
        let server = try ScriptedServer { connection, _ in
            while connection.request() != nil { connection.write(Self.fine) }
        }
        var configuration = TransportConfiguration()
        configuration.connectionsPerHost = 3
        let transport = try CurlTransport(configuration: configuration)
        let delegates = (0..<50).map { _ in EndObserver() }
        for delegate in delegates {
            transport.start(TransferRequest(method: "GET", url: server.url), delegate: delegate)
        }
        for delegate in delegates { #expect(delegate.status.wait(timeout: 10) { $0 } == 200) }
        #expect(server.connections.inspect { $0 } <= 3)
    }
}

/// What a request may take, with others before it.
@Suite struct TransferQueueTests {
    /// One connection, on which a body of two seconds comes; whether the next request is answered, which may take one.
    private func failureBehind(_ text: String) throws -> TransferError.Kind? {
        let server = try ScriptedServer { connection, _ in
            guard connection.request() != nil else { return }
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n")
            for _ in 0..<20 {
                connection.write(text)
                usleep(100_000)
            }
            while connection.request() != nil { connection.write(CurlTransportTests.fine) }
        }
        var configuration = TransportConfiguration()
        configuration.connectionsPerHost = 1
        let transport = try CurlTransport(configuration: configuration)
        transport.start(TransferRequest(method: "GET", url: server.url), delegate: EndObserver())
        _ = server.heads.wait(timeout: 10) { $0.isEmpty ? nil : true }
        var request = TransferRequest(method: "GET", url: server.url)
        request.totalTimeout = 1
        do throws(TransferError) {
            _ = try transport.perform(request)
            return nil
        } catch {
            return error.kind
        }
    }

    @Test func whoWaitsForOurOwnConnectionsDoesNotWaitForTheRemote() throws {
        #expect(try failureBehind("a") == nil)
    }

    @Test func whoWaitsForAConnectionOnWhichNothingMovesWaitsForTheRemote() throws {
        #expect(try failureBehind("") == .unreachable)
    }

    /// Bytes come on one connection, and on the other a request in time is never answered.
    @Test func whoWaitsBehindWhatIsNeverAnsweredWaitsForTheRemote() throws {
        let isOver = Monitor(false)
        let server = try ScriptedServer { connection, number in
            guard connection.request() != nil else { return }
            if number == 1 { connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n") }
            while isOver.wait(timeout: 0.1, until: { $0 ? true : nil }) == nil {
                if number == 1 { connection.write("a") }
            }
        }
        defer { isOver.update { $0 = true } }
        var configuration = TransportConfiguration()
        configuration.connectionsPerHost = 2
        let transport = try CurlTransport(configuration: configuration)
        let body = EndObserver()
        transport.start(TransferRequest(method: "GET", url: server.url), delegate: body)
        _ = server.heads.wait(timeout: 10) { $0.isEmpty ? nil : true }
        var stuck = TransferRequest(method: "GET", url: server.url)
        stuck.totalTimeout = 600
        transport.start(stuck, delegate: EndObserver())
        _ = server.heads.wait(timeout: 10) { $0.count == 2 ? true : nil }
        var request = TransferRequest(method: "GET", url: server.url)
        request.totalTimeout = 1
        #expect(throws: TransferError.self) { try transport.perform(request) }
        #expect(body.end.inspect { $0 } == nil)
        #expect(server.heads.inspect { $0.count } == 2)
    }
}

extension CurlTransportTests {
    /// Else the other end would not learn that we have closed them.
    @Test func noProgramThatIsStartedInheritsConnections() throws {
        let server = try ScriptedServer { connection, _ in
            while connection.request() != nil { connection.write(Self.fine) }
        }
        let transport = try CurlTransport()
        _ = try transport.perform(TransferRequest(method: "GET", url: server.url))
        let port = try #require(UInt16(server.url.split(separator: ":").last ?? ""))
        let kept = try Files.names(in: "/proc/self/fd").compactMap { Int32($0.string) }.filter { peerPort($0) == port }
        #expect(kept.count == 1)
        #expect(kept.allSatisfy { fcntl($0, F_GETFD) & FD_CLOEXEC != 0 })
    }

    private func peerPort(_ descriptor: Int32) -> UInt16? {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &length) }
        }
        return result == 0 ? UInt16(bigEndian: address.sin_port) : nil
    }
}

/// Notes how a transfer ends.
private final class EndObserver: TransferDelegate {
    let end = Monitor(TransferError.Kind?.none)
    let status = Monitor(Int?.none)

    func transferDidReceiveHead(status: Int, fields: HTTPFields) -> Bool { true }
    func transferDidReceive(_ bytes: UnsafeRawBufferPointer) -> Bool { true }

    func transferDidFinish(_ result: Result<TransferSummary, TransferError>) {
        switch result {
        case .success(let summary): status.update { $0 = summary.status }
        case .failure(let error): end.update { $0 = error.kind }
        }
    }
}
