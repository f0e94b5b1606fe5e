// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform

/// From the upstream to the client.
extension ProxyConnection {
    func relayResponses(from upstream: SocketStream) {
        while let raw = upstream.readHead(), let head = MessageHead(raw) {
            plan.waitWhileBlackholed { isEnded }
            if head.status < 200 {
                guard isSilenced || client.write(raw) else { break }
                continue
            }
            guard let exchange = state.inspect({ $0.exchanges.first }) else { break }
            state.inspect { $0.exchanges[0].record.upstreamStatus = head.status }
            guard relay(head, raw, exchange, from: upstream) else { break }
        }
        cut(.finish)
    }

    /// Whether the client must not hear anything of the current exchange.
    private var isSilenced: Bool {
        state.inspect { state in
            switch state.exchanges.first?.fault?.action {
            case .dropResponse, .replaceResponse: true
            default: false
            }
        }
    }

    private func relay(_ head: MessageHead, _ raw: [UInt8], _ exchange: Exchange, from upstream: SocketStream) -> Bool {
        let framing = head.responseFraming(to: exchange.record.method)
        var changed = head
        var start = raw
        var limit = Int64.max
        switch exchange.fault?.action {
        case .dropResponse(let style):
            cut(style)
            return false
        case .holdResponse:
            plan.waitForRelease(of: exchange.fault?.ruleID ?? 0) { isEnded }
        case .replaceResponse(let response):
            guard relayBody(framing, exchange, from: upstream, limit: 0) else { return false }
            finish(status: response.status)
            return client.write(response.serialized)
        case .setField(let name, let value):
            changed.set(name, value)
            start = changed.serialized
        case .truncateResponse(let after):
            guard exchange.record.method != "HEAD", case .length(let length) = framing, length > after else { break }
            changed.set("Content-Length", "\(after)")
            start = changed.serialized
            limit = after
        default:
            break
        }
        state.inspect { $0.exchanges[0].record.clientStatus = head.status }
        if BodyMeter(framing).isFinished { record() }
        guard client.write(start) else { return false }
        guard relayBody(framing, exchange, from: upstream, limit: limit) else { return false }
        finish(status: head.status)
        return head.value(of: "Connection")?.lowercased() != "close" && framing != .untilClose
    }

    private func finish(status: Int) {
        state.inspect { $0.exchanges[0].record.clientStatus = status }
        record()
        state.update { _ = $0.exchanges.removeFirst() }
    }

    /// Keeps what became of the current exchange, once; before the client gets the end of its answer, so that whoever
    /// has an answer finds it among the records.
    private func record() {
        let record = state.inspect { state -> RequestRecord? in
            if state.exchanges[0].isRecorded { return nil }
            state.exchanges[0].isRecorded = true
            return state.exchanges[0].record
        }
        if let record { plan.record(record) }
    }

    private func relayBody(
        _ framing: BodyFraming,
        _ exchange: Exchange,
        from upstream: SocketStream,
        limit: Int64
    ) -> Bool {
        var meter = BodyMeter(framing)
        var done: Int64 = 0
        while !meter.isFinished {
            guard let bytes = upstream.available(limit: plan.download.burst) else { return false }
            let before = meter.payload
            let count = meter.advance(bytes)
            let kept = Int(max(0, min(Int64(count), limit - done)))
            let allowed = min(kept, allowance(exchange.fault, .response, done: done, count: count))
            let content = min(meter.payload - before, Int64(kept))
            plan.count(exchange.record.kind, .response, content)
            state.inspect { $0.exchanges[0].record.responseBytes += content }
            if allowed == kept, meter.isFinished || done + Int64(count) >= limit { record() }
            let isWhole = send(bytes, allowed, exchange, done: done)
            done += Int64(count)
            let goesOn = act(exchange.fault, .response, isDue: allowed < kept, rest: bytes[allowed..<kept]) { rest in
                _ = pass(rest, .response, to: client)
            }
            guard isWhole, goesOn else { return false }
            upstream.consume(count)
        }
        if case .cutResponse(_, let style) = exchange.fault?.action { cut(style) }
        return !isEnded
    }

    private func send(_ bytes: UnsafeRawBufferPointer, _ count: Int, _ exchange: Exchange, done: Int64) -> Bool {
        let part = UnsafeRawBufferPointer(rebasing: bytes[..<count])
        guard case .corruptResponse(let offset) = exchange.fault?.action, offset >= done, offset < done + Int64(count)
        else { return pass(part, .response, to: client) }
        var changed = Array(part)
        changed[Int(offset - done)] ^= 0xFF
        return changed.withUnsafeBytes { pass($0, .response, to: client) }
    }
}
