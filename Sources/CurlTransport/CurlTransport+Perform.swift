// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import HTTPWire
internal import Platform

/// A complete response in memory.
package struct TransferResponse: Sendable {
    package var status: Int
    package var fields: HTTPFields
    package var body: [UInt8]
    /// Body bytes sent to the network, repetitions included.
    package var bytesSent: Int64

    package init(status: Int, fields: HTTPFields, body: [UInt8], bytesSent: Int64) {
        self.status = status
        self.fields = fields
        self.body = body
        self.bytesSent = bytesSent
    }
}

extension CurlTransport {
    /// Sends a request and waits for the whole response, whose body may have `limit` bytes at most.
    ///
    /// `started` gets the transfer, for cancelling; the other closures are called on the transfer thread.
    package func perform(
        _ request: TransferRequest,
        limit: Int = 1 << 20,
        informational: (@Sendable (Int, HTTPFields) -> Void)? = nil,
        progress: (@Sendable (Int64) -> Void)? = nil,
        started: ((Transfer) -> Void)? = nil
    ) throws(TransferError) -> TransferResponse {
        precondition(!isOnTransferThread, "a blocking request on the transfer thread would wait for itself")
        let collector = ResponseCollector(limit: limit, informational: informational, progress: progress)
        let transfer = start(request, delegate: collector)
        started?(transfer)
        return try collector.wait()
    }
}

/// Gathers a response for a thread that waits for it.
private final class ResponseCollector: TransferDelegate {
    private struct State {
        var fields = HTTPFields()
        var body: [UInt8] = []
        var isTooLarge = false
        var result: Result<TransferSummary, TransferError>?
    }

    private let limit: Int
    private let informational: (@Sendable (Int, HTTPFields) -> Void)?
    private let progress: (@Sendable (Int64) -> Void)?
    private let state = Monitor(State())

    init(
        limit: Int,
        informational: (@Sendable (Int, HTTPFields) -> Void)?,
        progress: (@Sendable (Int64) -> Void)?
    ) {
        self.limit = limit
        self.informational = informational
        self.progress = progress
    }

    func transferDidReceiveInformational(status: Int, fields: HTTPFields) {
        informational?(status, fields)
    }

    func transferDidReceiveHead(status: Int, fields: HTTPFields) -> Bool {
        state.inspect { $0.fields = fields }
        return true
    }

    func transferDidReceive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        state.inspect { state in
            guard state.body.count + bytes.count <= limit else {
                state.isTooLarge = true
                return false
            }
            state.body.append(contentsOf: bytes)
            return true
        }
    }

    func transferDidSend(_ count: Int64) {
        progress?(count)
    }

    func transferDidFinish(_ result: Result<TransferSummary, TransferError>) {
        state.update { $0.result = result }
    }

    func wait() throws(TransferError) -> TransferResponse {
        let end = state.wait { state in state.result.map { ($0, state) } }
        guard let (result, state) = end else { throw TransferError(.cancelled, "cancelled") }
        switch result {
        case .success(let summary):
            return TransferResponse(
                status: summary.status,
                fields: state.fields,
                body: state.body,
                bytesSent: summary.bytesSent
            )
        case .failure(let error) where state.isTooLarge:
            throw TransferError(
                .protocolViolation,
                "a response above \(limit) bytes",
                bytesSent: error.bytesSent
            )
        case .failure(let error):
            throw error
        }
    }
}
