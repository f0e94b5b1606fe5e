// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform

/// From the client to the upstream.
extension ProxyConnection {
    func relayRequests(to upstream: SocketStream) {
        while let raw = client.readHead(), let head = MessageHead(raw) {
            plan.waitWhileBlackholed { isEnded }
            let fault = plan.admit(head)
            plan.delay { isEnded }
            wait(for: fault)
            if isEnded { return }
            if case .respond(let response) = fault?.action {
                guard answer(head, with: response) else { break }
            } else if case .detain(let milliseconds, let style) = fault?.action {
                guard detain(raw, head, fault?.ruleID ?? 0, milliseconds) else { break }
                if let style { cut(style) }
                // Whatever else the client sends is lost.
                while let bytes = client.available() { client.consume(bytes.count) }
                break
            } else {
                guard forward(raw, head, fault, to: upstream) else { break }
            }
        }
        cut(.finish)
    }

    private func wait(for fault: ChosenFault?) {
        switch fault?.action {
        case .hold: plan.waitForRelease(of: fault?.ruleID ?? 0) { isEnded }
        case .delay(let milliseconds): plan.delay(milliseconds: milliseconds) { isEnded }
        default: return
        }
    }

    /// Takes a request whole, for another thread to deliver; false when it did not come whole.
    private func detain(_ raw: [UInt8], _ head: MessageHead, _ ruleID: Int, _ milliseconds: Int?) -> Bool {
        if head.value(of: "Expect") != nil, !client.write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) { return false }
        var message = raw
        let isWhole = relayContent(head.requestFraming) { bytes, content in
            plan.count(RequestKind(head), .request, content)
            message += bytes
            return true
        }
        guard isWhole else { return false }
        let (upstream, whole) = (upstreamAddress, message)
        plan.detained(by: ruleID)
        _ = try? Thread.detached(name: "proxy-detained") { [plan] in
            if let milliseconds {
                plan.delay(milliseconds: milliseconds) { false }
            } else {
                plan.waitForRelease(of: ruleID) { false }
            }
            var record = RequestRecord(head)
            if let socket = try? LoopbackSocket.connected(to: upstream) {
                let stream = SocketStream(socket) { false }
                if stream.write(whole), let answer = stream.readHead() {
                    record.upstreamStatus = MessageHead(answer)?.status
                }
            }
            plan.record(record)
        }
        return true
    }

    /// Answers in the upstream's place, after the earlier answers and the request's content.
    private func answer(_ head: MessageHead, with response: CannedResponse) -> Bool {
        waitForEarlierAnswers()
        var record = RequestRecord(head)
        if head.value(of: "Expect") != nil, !client.write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) { return false }
        let isWhole = relayContent(head.requestFraming) { bytes, content in
            record.requestBytes += content
            plan.count(record.kind, .request, content)
            return true
        }
        record.clientStatus = response.status
        plan.record(record)
        return isWhole && client.write(response.serialized)
    }

    private func waitForEarlierAnswers() {
        while !isEnded {
            if state.wait(timeout: 0.05, until: { $0.exchanges.isEmpty ? true : nil }) == true { return }
        }
    }

    private func forward(_ raw: [UInt8], _ head: MessageHead, _ fault: ChosenFault?, to upstream: SocketStream) -> Bool
    {
        let kind = RequestKind(head)
        state.update { $0.exchanges.append(Exchange(record: RequestRecord(head), fault: fault)) }
        var isReachable = upstream.write(raw)
        var done: Int64 = 0
        let isWhole = relayContent(head.requestFraming) { bytes, content in
            plan.count(kind, .request, content)
            state.inspect { state in
                if let last = state.exchanges.indices.last { state.exchanges[last].record.requestBytes += content }
            }
            let allowed = allowance(fault, .request, done: done, count: bytes.count)
            done += Int64(bytes.count)
            let part = UnsafeRawBufferPointer(rebasing: bytes[..<allowed])
            // An upstream that answered early and closed is not an error yet: its answer is on its way.
            if isReachable { isReachable = pass(part, .request, to: upstream) }
            return act(fault, .request, isDue: allowed < bytes.count, rest: bytes[allowed...]) { rest in
                isReachable = isReachable && pass(rest, .request, to: upstream)
            }
        }
        if isWhole, case .cutRequest(_, let style) = fault?.action { cut(style) }
        return isWhole && !isEnded
    }

    /// Reads a body and hands out its pieces, each with the count of its content bytes; false when it ended early.
    private func relayContent(
        _ framing: BodyFraming,
        _ piece: (UnsafeRawBufferPointer, Int64) -> Bool
    ) -> Bool {
        var meter = BodyMeter(framing)
        while !meter.isFinished {
            guard let bytes = client.available(limit: plan.upload.burst) else { return false }
            let before = meter.payload
            let count = meter.advance(bytes)
            guard piece(UnsafeRawBufferPointer(rebasing: bytes[..<count]), meter.payload - before) else { return false }
            client.consume(count)
        }
        return true
    }

    /// How many of the next `count` bytes go through before the exchange's fault acts.
    func allowance(_ fault: ChosenFault?, _ direction: Direction, done: Int64, count: Int) -> Int {
        switch (fault?.action, direction) {
        case (.cutRequest(let after, _), .request), (.cutResponse(let after, _), .response):
            return Int(max(0, min(Int64(count), after - done)))
        case (.stall(let way, let after), _) where way == direction && done <= after:
            return Int(max(0, min(Int64(count), after - done)))
        default:
            return count
        }
    }

    /// Does what is due after the allowed bytes; false when the connection was cut.
    func act(
        _ fault: ChosenFault?,
        _ direction: Direction,
        isDue: Bool,
        rest: Slice<UnsafeRawBufferPointer>,
        _ goOn: (UnsafeRawBufferPointer) -> Void
    ) -> Bool {
        guard isDue, let fault else { return !isEnded }
        switch fault.action {
        case .cutRequest(_, let style), .cutResponse(_, let style):
            cut(style)
        case .stall:
            plan.waitForRelease(of: fault.ruleID) { isEnded }
            goOn(UnsafeRawBufferPointer(rebasing: rest))
        default:
            break
        }
        return !isEnded
    }
}
