// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import CurlTransport
import Glibc
import HTTPWire
import Platform
import Testing

@Suite struct HeldTransferTests {
    @Test func aTransferThatItsDelegateHoldsWaitsAndGoesOn() throws {
        let body = String(repeating: "x", count: 8 << 20)
        let server = try ScriptedServer { connection, _ in
            while connection.request() != nil {
                connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
            }
        }
        let delegate = HoldingDelegate()
        var request = TransferRequest(method: "GET", url: server.url)
        request.stallTimeout = 1
        let transport = try CurlTransport()
        let transfer = transport.start(request, delegate: delegate)
        #expect(delegate.state.wait(timeout: 20) { $0.isHeld ? true : nil } == true)
        // Longer than nothing may move for.
        usleep(2_500_000)
        #expect(delegate.state.inspect { $0.received < body.utf8.count && $0.end == nil })
        delegate.state.update { $0.limit = .max }
        transfer.goOn()
        let end = delegate.state.wait(timeout: 20) { $0.end }
        #expect(end == true && delegate.state.inspect { $0.received } == body.utf8.count)
    }
}

/// Wants no more than so many bytes for now.
private final class HoldingDelegate: TransferDelegate {
    struct State {
        var limit = 1 << 20
        var received = 0
        var isHeld = false
        /// Whether it ended well.
        var end: Bool?
    }

    let state = Monitor(State())

    func transferDidReceiveHead(status: Int, fields: HTTPFields) -> Bool { true }

    func transferMayReceive() -> Bool {
        state.update { state in
            state.isHeld = state.received >= state.limit
            return !state.isHeld
        }
    }

    func transferDidReceive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        state.update { $0.received += bytes.count }
        return true
    }

    func transferDidFinish(_ result: Result<TransferSummary, TransferError>) {
        state.update { state in
            if case .success = result { state.end = true } else { state.end = false }
        }
    }
}
