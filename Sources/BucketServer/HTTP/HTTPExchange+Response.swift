// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import Platform

extension HTTPExchange {
    func sendInformational(_ status: Int, _ fields: HTTPFields) {
        precondition((102...199).contains(status), "not an interim status: \(status)")
        guard !hasSentFinal, head.isVersion11 else { return }
        sendRaw(HTTPResponseHead.encoded(status, fields))
    }

    func send(_ status: Int, _ fields: HTTPFields, _ body: HTTPResponseBody) {
        precondition((200...599).contains(status), "not a final status: \(status)")
        guard !hasSentFinal else { return }
        hasSentFinal = true
        finalStatus = status
        if !canReuseAfterAnswer { mustClose = true }
        let hasContent = status != 204 && status != 304
        let head = HTTPResponseHead.encoded(status, completed(fields, length: hasContent ? body.count : nil))
        guard hasContent, self.head.method != "HEAD" else { return sendRaw(head) }
        sendContent(head, body)
    }

    private func sendContent(_ head: [UInt8], _ body: HTTPResponseBody) {
        switch body {
        case .none:
            sendRaw(head)
        case .bytes(let bytes):
            sendRaw(head + bytes)
            statistics.countSent(self.head.method, Int64(bytes.count))
        case .file(let file, let range):
            sendRaw(head, more: !range.isEmpty)
            sendFile(file, range)
        }
    }

    /// Sends a range of a file; a file that got shorter, or a client that trickles, ends the connection.
    private func sendFile(_ file: OpenFile, _ range: ByteRange) {
        var rate = TransferRate(limits: limits)
        var offset = range.lower
        while offset < range.upper, bodyError == nil {
            do {
                let count = try socket.sendFile(
                    file.descriptor.raw,
                    offset: offset,
                    count: Int(min(range.upper - offset, 1 << 20))
                )
                offset += Int64(count)
                statistics.countSent(head.method, Int64(count))
                if !rate.add(count, now: monotonicSeconds()) { return fail() }
            } catch {
                return fail()
            }
        }
    }

    /// The fields with those that every answer has.
    private func completed(_ fields: HTTPFields, length: Int64?) -> HTTPFields {
        var fields = fields
        fields["Date"] = HTTPDate.format(Timestamp.now())
        if let length { fields["Content-Length"] = String(length) }
        if mustClose {
            fields["Connection"] = "close"
        } else if !head.isVersion11 {
            fields["Connection"] = "keep-alive"
        }
        return fields
    }

    /// Whether another request can follow: what is left of the content is known to come and is little.
    private var canReuseAfterAnswer: Bool {
        if isComplete { return true }
        if bodyError != nil || isContinueOwed { return false }
        guard declaredLength != nil else { return true }
        return remaining <= limits.drainBytes
    }

    /// Reads and drops what the handler left of the content, so that the next request can be found.
    func drain() {
        var left = limits.drainBytes
        withUnsafeTemporaryAllocation(byteCount: 16_384, alignment: 16) { buffer in
            while !isComplete, !mustClose {
                guard left > 0, let count = try? read(into: buffer) else {
                    mustClose = true
                    return
                }
                left -= Int64(count)
            }
        }
    }
}
