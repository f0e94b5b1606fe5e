// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import Platform

/// One request and its answer on a connection.
///
/// Everything but `interrupt()` belongs to the connection's thread, which is
/// what makes the unchecked conformance right.
final class HTTPExchange: HTTPRequestBody, HTTPResponder, @unchecked Sendable {
    let head: HTTPRequestHead
    let socket: ConnectionSocket
    let input: ConnectionInput
    let limits: HTTPLimits
    let statistics: ServerStatistics

    /// Whether the connection must be closed behind this exchange.
    var mustClose: Bool
    var chunks: ChunkedDecoder?
    var remaining: Int64
    var bodyError: HTTPBodyError?
    var rate: TransferRate
    private(set) var bytesRead: Int64 = 0
    var hasSentFinal = false
    var finalStatus = 0
    private var owesContinue: Bool
    /// Bytes that may still be taken after an interruption: more than a socket holds.
    private var restAfterInterruption = 8 << 20

    private struct Interruption {
        var isFinished = false
        var isInterrupted = false
    }
    private let interruption = Lock(Interruption())

    init(
        head: HTTPRequestHead,
        socket: ConnectionSocket,
        input: ConnectionInput,
        limits: HTTPLimits,
        statistics: ServerStatistics
    ) {
        self.head = head
        self.socket = socket
        self.input = input
        self.limits = limits
        self.statistics = statistics
        mustClose = !head.keepsAlive
        owesContinue = head.expectsContinue
        rate = TransferRate(limits: limits)
        switch head.framing {
        case .chunked:
            chunks = ChunkedDecoder(limits: limits)
            remaining = .max
        case .length(let length):
            remaining = length
        }
    }

    // MARK: the content

    var declaredLength: Int64? {
        guard case .length(let length) = head.framing else { return nil }
        return length
    }

    var trailers: HTTPFields { chunks?.trailers ?? HTTPFields() }
    var isComplete: Bool { remaining == 0 }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(HTTPBodyError) -> Int {
        if let bodyError { throw bodyError }
        guard remaining > 0, !buffer.isEmpty else { return 0 }
        sendContinueIfOwed()
        do {
            let count = try chunks == nil ? readLength(into: buffer) : readChunked(into: buffer)
            bytesRead += Int64(count)
            statistics.countReceived(head.method, count)
            return count
        } catch {
            bodyError = error
            mustClose = true
            throw error
        }
    }

    private func readLength(into buffer: UnsafeMutableRawBufferPointer) throws(HTTPBodyError) -> Int {
        let wanted = UnsafeMutableRawBufferPointer(rebasing: buffer[..<Int(min(Int64(buffer.count), remaining))])
        let count = try receive { timeout throws(ConnectionSocket.Failure) in
            try input.read(into: wanted, timeout: timeout)
        }
        if count == 0 { throw .cutShort }
        remaining -= Int64(count)
        return count
    }

    private func readChunked(into buffer: UnsafeMutableRawBufferPointer) throws(HTTPBodyError) -> Int {
        while true {
            let filled = try receive { timeout throws(ConnectionSocket.Failure) in
                try input.fill(timeout: timeout) ? input.available.count : 0
            }
            if filled == 0 { throw .cutShort }
            switch try nextPiece(limit: buffer.count) {
            case .framing(let count):
                input.drop(count)
            case .content(let count):
                buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: input.available[..<count]))
                input.drop(count)
                return count
            case .end(let count):
                input.drop(count)
                remaining = 0
                return 0
            }
        }
    }

    private func nextPiece(limit: Int) throws(HTTPBodyError) -> ChunkedDecoder.Piece {
        let available = input.available
        do {
            let window = UnsafeRawBufferPointer(rebasing: available[..<min(limit, available.count)])
            return try chunks?.next(window) ?? .end(0)
        } catch {
            throw .malformed(error.reason)
        }
    }

    /// Runs a receiving call under the stall timeout and the least rate, and maps its errors.
    private func receive(
        _ body: (Double) throws(ConnectionSocket.Failure) -> Int
    ) throws(HTTPBodyError) -> Int {
        if isInterrupted { return try receiveRest(body) }
        do {
            let count = try body(limits.stallTimeout)
            if count == 0, isInterrupted { throw HTTPBodyError.interrupted }
            guard rate.add(count, now: monotonicSeconds()) else { throw HTTPBodyError.timedOut }
            return count
        } catch let error as HTTPBodyError {
            throw error
        } catch ConnectionSocket.Failure.timedOut {
            throw .timedOut
        } catch {
            throw isInterrupted ? .interrupted : .cutShort
        }
    }

    /// What is in the socket when an interruption comes is still taken, so that the client need not send it again.
    private func receiveRest(
        _ body: (Double) throws(ConnectionSocket.Failure) -> Int
    ) throws(HTTPBodyError) -> Int {
        guard restAfterInterruption > 0, let count = try? body(0), count > 0 else { throw .interrupted }
        restAfterInterruption -= count
        return count
    }

    private func sendContinueIfOwed() {
        guard owesContinue else { return }
        owesContinue = false
        // A client that did not wait has no use for it.
        guard input.isEmpty, !hasSentFinal else { return }
        sendRaw(HTTPResponseHead.encoded(100, HTTPFields()))
    }

    /// Whether the client may still be waiting for 100 (Continue) and then never sends the content.
    var isContinueOwed: Bool { owesContinue }

    // MARK: interruption

    private var isInterrupted: Bool { interruption.withLock { $0.isInterrupted } }

    func interrupt() {
        interruption.withLock { state in
            guard !state.isFinished else { return }
            state.isInterrupted = true
            socket.shutdownReading()
        }
    }

    /// Ends the exchange: later interruptions do nothing.
    ///
    /// Returns whether there was one.
    func finish() -> Bool {
        interruption.withLock { state in
            state.isFinished = true
            return state.isInterrupted
        }
    }

    func sendRaw(_ bytes: [UInt8], more: Bool = false) {
        do {
            try socket.send(bytes, more: more)
        } catch {
            fail()
        }
    }

    /// Gives the connection up after a failed send.
    func fail() {
        mustClose = true
        bodyError = bodyError ?? .cutShort
        socket.shutdownBoth()
    }
}
