// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Platform
import TestSupport
import Testing

/// A proxy before a server that keeps what is put and tells how many requests it saw.
struct ProxyFixture {
    let server: StubServer
    let proxy: FaultProxy
    let seen: Monitor<[String]>

    init(body: String = "0123456789") throws {
        let seen = Monitor<[String]>([])
        self.seen = seen
        server = try StubServer { head, content in
            seen.update { $0.append("\(head.method) \(content.count)") }
            let length = head.method == "HEAD" ? "" : body
            let lines = ["HTTP/1.1 200 OK", "ETag: \"one\"", "Content-Length: \(body.utf8.count)", "", length]
            return Array(lines.joined(separator: "\r\n").utf8)
        }
        proxy = try FaultProxy(upstream: server.address)
    }

    func get(_ target: String = "/b/k") throws -> StubResponse? {
        let client = try StubClient(proxy.address)
        client.send("GET", target)
        return client.receive()
    }

    func stop() {
        proxy.stop()
        server.stop()
    }
}

@Suite struct FaultProxyTests {
    @Test func requestsPassUnchangedAndAreCounted() throws {
        let fixture = try ProxyFixture()
        defer { fixture.stop() }
        let client = try StubClient(fixture.proxy.address)
        client.send("PUT", "/b/k?partNumber=1&uploadId=u", body: [UInt8](repeating: 7, count: 100_000))
        #expect(client.receive(method: "PUT")?.body == Array("0123456789".utf8))
        client.send("HEAD", "/b/k")
        #expect(client.receive(method: "HEAD")?.head.status == 200)
        #expect(fixture.seen.inspect { $0 } == ["PUT 100000", "HEAD 0"])
        let totals = fixture.proxy.plan.totals
        #expect(totals.first { $0.key.description == "PUT part" }?.value.requestBytes == 100_000)
        #expect(totals.first { $0.key.description == "HEAD object" }?.value.responseBytes == 0)
    }

    @Test func aRuleActsOnTheRequestsItIsForAndNoOther() throws {
        let fixture = try ProxyFixture()
        defer { fixture.stop() }
        let canned = CannedResponse(status: 503, fields: ["Retry-After: 1"], body: "<Error/>")
        fixture.proxy.plan.add(FaultRule(.respond(canned), for: .init(method: "GET", path: "/b"), skip: 1, times: 2))
        let statuses = try (0..<5).map { _ in try fixture.get()?.head.status }
        #expect(statuses == [200, 503, 503, 200, 200])
        #expect(try fixture.get("/other")?.head.status == 200)
        #expect(fixture.seen.inspect { $0.count } == 4)
    }

    @Test func aDroppedResponseLeavesTheUpstreamCommitted() throws {
        let fixture = try ProxyFixture()
        defer { fixture.stop() }
        fixture.proxy.plan.add(FaultRule(.dropResponse(.reset), for: .init(method: "PUT")))
        let client = try StubClient(fixture.proxy.address)
        client.send("PUT", "/b/k", body: [1, 2, 3])
        #expect(client.receive(method: "PUT") == nil)
        #expect(fixture.seen.inspect { $0 } == ["PUT 3"])
        let again = try StubClient(fixture.proxy.address)
        again.send("PUT", "/b/k", body: [1, 2, 3])
        #expect(again.receive(method: "PUT")?.head.status == 200)
    }

    @Test(arguments: [CutStyle.reset, .finish])
    func aRequestIsCutAfterTheGivenBytes(style: CutStyle) throws {
        let fixture = try ProxyFixture()
        defer { fixture.stop() }
        fixture.proxy.plan.add(FaultRule(.cutRequest(after: 1_000, style), for: .init(method: "PUT")))
        let client = try StubClient(fixture.proxy.address)
        client.send("PUT", "/b/k", body: [UInt8](repeating: 1, count: 5_000))
        #expect(client.receive(method: "PUT") == nil)
        #expect(fixture.seen.inspect { $0.isEmpty })
    }

    @Test func responsesAreCutShortenedAndChanged() throws {
        let fixture = try ProxyFixture()
        defer { fixture.stop() }
        let plan = fixture.proxy.plan
        plan.add(FaultRule(.cutResponse(after: 4, .finish)))
        let cut = try fixture.get()
        #expect(cut?.body == Array("0123".utf8))
        #expect(cut?.isWhole == false)
        plan.add(FaultRule(.truncateResponse(after: 3)))
        let short = try fixture.get()
        #expect(short?.body == Array("012".utf8))
        #expect(short?.isWhole == true)
        plan.add(FaultRule(.corruptResponse(at: 1)))
        #expect(try fixture.get()?.body.prefix(3) == [0x30, 0x31 ^ 0xFF, 0x32])
        plan.add(FaultRule(.setField("ETag", "\"two\"")))
        #expect(try fixture.get()?.head.value(of: "etag") == "\"two\"")
        #expect(try fixture.get()?.head.value(of: "etag") == "\"one\"")
    }

    @Test func aHeldRequestGoesOnWhenItIsReleased() throws {
        let fixture = try ProxyFixture()
        defer { fixture.stop() }
        let id = fixture.proxy.plan.add(FaultRule(.hold))
        let client = try StubClient(fixture.proxy.address)
        client.send("GET", "/b/k")
        #expect(fixture.proxy.plan.waitForMatches(of: id, count: 1, timeout: 10) == 1)
        #expect(fixture.seen.inspect { $0.isEmpty })
        fixture.proxy.plan.release(id)
        #expect(client.receive()?.head.status == 200)
    }

    @Test func aHeldAnswerIsKeptFromTheClientOnly() throws {
        let fixture = try ProxyFixture()
        defer { fixture.stop() }
        let id = fixture.proxy.plan.add(FaultRule(.holdResponse))
        let client = try StubClient(fixture.proxy.address)
        let whole = Array("PUT /b/k HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\n12".utf8)
        client.send(Array(whole.dropLast()))
        #expect(fixture.proxy.plan.waitForMatches(of: id, count: 1, timeout: 0.2) == 0)
        client.send(Array(whole.suffix(1)))
        #expect(fixture.proxy.plan.waitForMatches(of: id, count: 1, timeout: 10) == 1)
        #expect(fixture.seen.inspect { $0 } == ["PUT 2"])
        fixture.proxy.plan.remove(id)
        #expect(client.receive()?.head.status == 200)
    }

    @Test func refusedConnectionsAreWelcomeAgainOnTheSamePort() throws {
        let fixture = try ProxyFixture()
        defer { fixture.stop() }
        #expect(try fixture.get()?.head.status == 200)
        fixture.proxy.setMode(.refuse)
        #expect(throws: (any Error).self) { try fixture.get() }
        fixture.proxy.setMode(.reset)
        #expect(try fixture.get() == nil)
        fixture.proxy.setMode(.pass)
        #expect(try fixture.get()?.head.status == 200)
    }

    @Test func connectionsAreCutWhereTheTotalReachesAnOffset() throws {
        let fixture = try ProxyFixture()
        defer { fixture.stop() }
        fixture.proxy.plan.cut(atTotals: [150, 260], of: .request)
        let results = try (0..<5).map { _ -> Bool in
            let client = try StubClient(fixture.proxy.address)
            client.send("PUT", "/b/k", body: [UInt8](repeating: 1, count: 100))
            return client.receive(method: "PUT") != nil
        }
        #expect(results == [true, false, true, false, true])
        #expect(fixture.proxy.plan.cutsDone == 2)
    }

    @Test func anotherProcessCanSteerTheProxy() throws {
        let fixture = try ProxyFixture()
        defer { fixture.stop() }
        let control = try ControlServer(fixture.proxy)
        let stream = SocketStream(try LoopbackSocket.connected(to: control.address)) { false }
        func ask(_ line: String) -> String? {
            _ = stream.write(Array((line + "\n").utf8))
            return stream.readLine()
        }
        #expect(ask("rule action=respond status=418 path=%2Fb%2F add=X-A:%201%0AX-B:%202 body=a%20b") == "ok id=1")
        let response = try fixture.get()
        #expect(response?.head.status == 418)
        #expect(response?.head.value(of: "X-B") == "2")
        #expect(response?.body == Array("a b".utf8))
        #expect(ask("wait id=1 matched=1 timeout=5") == "ok matched=1")
        #expect(ask("mode to=sideways") == "error mode needs to=pass|refuse|reset|blackhole")
        #expect(ask("stats")?.hasPrefix("ok {\"connections\":") == true)
        #expect(ask("requests")?.contains("\"client_status\":418") == true)
        #expect(ask("clear") == "ok ")
    }
}
