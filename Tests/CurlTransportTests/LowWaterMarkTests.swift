// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import HTTPWire
import Platform
import TestSupport
import Testing

@testable import CurlTransport

@Suite struct LowWaterMarkTests {
    private let length = 64 << 20

    /// A mark after `received` bytes, which came within so many seconds.
    private func mark(after received: Int, in seconds: Double, of length: Int?) -> LowWaterMark {
        var mark = LowWaterMark()
        mark.note(received: 0, of: length, at: 1)
        mark.note(received: received, of: length, at: 1 + seconds)
        return mark
    }

    @Test func onlyFastConnectionsHaveOne() {
        #expect(mark(after: 2 << 20, in: 0.02, of: length).bytes == LowWaterMark.piece)
        #expect(!mark(after: 2 << 20, in: 0.04, of: length).isSet, "50 MiB a second")
        #expect(!mark(after: 512 << 10, in: 0.001, of: length).isSet, "too little to know")
        #expect(!mark(after: 2 << 20, in: 0.01, of: nil).isSet, "nobody knows what is still to come")
    }

    @Test func nothingIsWaitedForThatDoesNotCome() {
        var mark = mark(after: 2 << 20, in: 0.01, of: length)
        mark.note(received: length - (700 << 10), of: length, at: 1.2)
        #expect(mark.isSet)
        mark.note(received: length - (600 << 10), of: length, at: 1.2)
        #expect(!mark.isSet, "less is left than the mark and what others may hold")
    }

    @Test func aStandstillEndsIt() {
        var mark = mark(after: 2 << 20, in: 0.01, of: length)
        for _ in 0..<3 {
            mark.noteNothing(waited: 0.006, at: 1.02)
            mark.note(received: 4 << 20, of: length, at: 1.02)
        }
        #expect(mark.isSet, "something came in between")
        mark.noteNothing(waited: 0.006, at: 1.026)
        mark.noteNothing(waited: 0.006, at: 1.032)
        #expect(!mark.isSet)
        mark.note(received: 32 << 20, of: length, at: 1.04)
        #expect(!mark.isSet, "not again in this transfer")
    }

    @Test func itEndsAlsoWhileTheThreadIsBusy() {
        var mark = mark(after: 2 << 20, in: 0.01, of: length)
        mark.noteNothing(waited: 0, at: 1.5)
        #expect(mark.isSet, "one turn may take long")
        mark.noteNothing(waited: 0, at: 1.5)
        #expect(!mark.isSet)
    }

    /// Two connections of one local port to two addresses cannot be told apart by their ports.
    @Test func noOtherConnectionGetsIt() throws {
        let table = SocketTable()
        let listener = try LoopbackSocket.bound(to: SocketAddress(port: 0), isListening: true)
        let remotePort = LoopbackSocket.port(of: listener)
        let other = SocketAddress(host: "127.0.0.2", port: remotePort)
        let otherListener = try LoopbackSocket.bound(to: other, isListening: true)
        let first = try LoopbackSocket.bound(to: SocketAddress(port: 0), isListening: false)
        let localPort = LoopbackSocket.port(of: first)
        let second = try LoopbackSocket.bound(to: SocketAddress(port: localPort), isListening: false)
        try LoopbackSocket.connect(first, to: SocketAddress(port: remotePort))
        table.note(first.raw)
        let ports = (Int(localPort), Int(remotePort))
        table.setMark(LowWaterMark.piece, localPort: ports.0, remotePort: ports.1)
        #expect(lowWaterMark(first.raw) == LowWaterMark.piece && table.hasMarks)
        try LoopbackSocket.connect(second, to: other)
        table.note(second.raw)
        table.setMark(LowWaterMark.piece, localPort: ports.0, remotePort: ports.1)
        #expect(lowWaterMark(first.raw) == 1 && lowWaterMark(second.raw) == 1 && !table.hasMarks)
        _ = (listener.raw, otherListener.raw)
    }

    /// A server that stops within a piece.
    @Test func whatComesInBitsArrives() throws {
        let answer = SteppedAnswer(steps: [4 << 20, 2 << 20, 3], rest: 1 << 20)
        let server = try ScriptedServer { connection, _ in
            while connection.request() != nil { answer.write(to: connection) }
        }
        let transport = try CurlTransport()
        for _ in 0..<4 {
            _ = transport.start(TransferRequest(method: "GET", url: server.url), delegate: answer)
            #expect(answer.waitForEnd())
        }
    }

    /// The rest of an answer comes at once, so that its connection still has the mark when it ends.
    @Test func theNextAnswerMayBeShort() throws {
        let answer = SteppedAnswer(steps: [4 << 20, 2 << 20], rest: 1 << 20)
        let server = try ScriptedServer { connection, _ in
            while let (head, _) = connection.request() {
                if head.startLine.contains("/long") {
                    answer.write(to: connection)
                } else {
                    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nend")
                }
            }
        }
        let transport = try CurlTransport()
        var count = 0
        // A mark comes and goes with the time that things take.
        while !answer.wasMarked, count < 100 {
            count += 1
            _ = transport.start(TransferRequest(method: "GET", url: server.url + "/long"), delegate: answer)
            #expect(answer.waitForEnd())
            var request = TransferRequest(method: "GET", url: server.url + "/short")
            request.stallTimeout = 5
            #expect(try transport.perform(request).body == Array("end".utf8))
        }
        #expect(answer.wasMarked && server.connections.inspect { $0 } == 1, "connections are kept")
    }
}

/// What the kernel says of a descriptor's mark; nil: it is no socket.
private func lowWaterMark(_ descriptor: Int32) -> Int? {
    var value: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(descriptor, SOL_SOCKET, SO_RCVLOWAT, &value, &length) == 0 ? Int(value) : nil
}

/// An answer of which each part is sent when the one before has been taken, and its rest at once; and who takes it.
private final class SteppedAnswer: TransferDelegate {
    private struct State {
        var received = 0
        /// How much had come when there was no more for now.
        var drained = 0
        var isWritten = false
        /// Whether it ended well.
        var end: Bool?
    }

    private let steps: [Int]
    private let rest: Int
    private let state = Monitor(State())
    private let marked = Monitor(false)

    /// Whether a connection had a mark when the rest came.
    var wasMarked: Bool { marked.inspect { $0 } }

    private var beginning: Int { steps.reduce(0, +) }

    init(steps: [Int], rest: Int) {
        (self.steps, self.rest) = (steps, rest)
    }

    /// The server's part.
    func write(to connection: ScriptedConnection) {
        connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(beginning + rest)\r\n\r\n")
        var written = 0
        for step in steps {
            _ = connection.stream.write([UInt8](repeating: 7, count: step))
            written += step
            let isTaken = state.wait(timeout: 20) { [written] in $0.drained == written ? true : nil }
            guard isTaken == true else { return }
        }
        _ = connection.stream.write([UInt8](repeating: 7, count: rest))
        state.update { $0.isWritten = true }
    }

    /// Whether it has come, and the same once more can.
    func waitForEnd() -> Bool {
        let isComplete = state.wait(timeout: 30) { [beginning, rest] seen in
            seen.end.map { $0 && seen.received == beginning + rest }
        }
        state.update { $0 = State() }
        return isComplete == true
    }

    func transferDidReceiveHead(status: Int, fields: HTTPFields) -> Bool { status == 200 }

    func transferDidReceive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let received = state.update { state in
            state.received += bytes.count
            return state.received
        }
        guard received > beginning else { return true }
        _ = state.wait(timeout: 20) { $0.isWritten ? true : nil }
        if received == beginning + rest, (0..<1024).contains(where: { lowWaterMark($0) == LowWaterMark.piece }) {
            marked.update { $0 = true }
        }
        return true
    }

    func transferDidDrain() {
        state.update { $0.drained = $0.received }
    }

    func transferDidFinish(_ result: Result<TransferSummary, TransferError>) {
        state.update { state in
            if case .success = result { state.end = true } else { state.end = false }
        }
    }
}
