// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
package import Platform

/// A connected socket that carries frames: one JSON document a line.
///
/// Any thread may send; one thread at a time receives.
package final class FrameChannel: Sendable {
    private let descriptor: FileDescriptor
    private let sending = Lock<Void>(())
    private let pending = Lock<[UInt8]>([])

    package init(_ descriptor: consuming FileDescriptor) {
        self.descriptor = descriptor
    }

    /// Ends the connection, waking whoever sends or receives.
    package func shutdown() {
        UnixSocket.shutdown(descriptor.raw)
    }

    /// The user and process at the other end.
    package func peer() throws(SystemError) -> (uid: UInt32, pid: Int32) {
        try UnixSocket.peer(of: descriptor)
    }

    /// Sends one frame; `timeout` bounds how long the peer may take nothing, in seconds.
    package func send(_ frame: [UInt8], timeout: Double = 10) throws(ControlError) {
        guard frame.count < ControlProtocol.frameLimit else { throw .malformed("a frame of \(frame.count) bytes") }
        let failure: SystemError? = sending.withLock { _ in
            do throws(SystemError) {
                try UnixSocket.send(frame + [UInt8(ascii: "\n")], on: descriptor.raw, timeout: timeout)
                return nil
            } catch {
                return error
            }
        }
        guard let failure else { return }
        if failure.code == EPIPE || failure.code == ECONNRESET { throw .closed }
        throw .system(failure)
    }

    /// The next frame without its newline, nil when `timeout` seconds pass first.
    package func receive(timeout: Double?) throws(ControlError) -> [UInt8]? {
        let end = timeout.map { AttendedClock.shared.seconds + $0 }
        var buffer = pending.withLock { buffer in
            defer { buffer = [] }
            return buffer
        }
        var scanned = 0
        while true {
            if let newline = buffer[scanned...].firstIndex(of: UInt8(ascii: "\n")) {
                let rest = Array(buffer[(newline + 1)...])
                pending.withLock { $0 = rest }
                return Array(buffer[..<newline])
            }
            scanned = buffer.count
            guard buffer.count < ControlProtocol.frameLimit else { throw .malformed("a frame without an end") }
            guard try waitReadable(until: end) else {
                let rest = buffer
                pending.withLock { $0 = rest }
                return nil
            }
            try readMore(into: &buffer)
        }
    }

    private func waitReadable(until end: Double?) throws(ControlError) -> Bool {
        do throws(SystemError) {
            return try UnixSocket.waitReadable(
                descriptor.raw,
                timeout: end.map { max(0, $0 - AttendedClock.shared.seconds) }
            )
        } catch {
            throw .system(error)
        }
    }

    private func readMore(into buffer: inout [UInt8]) throws(ControlError) {
        var chunk = [UInt8](repeating: 0, count: 16_384)
        let count = chunk.withUnsafeMutableBytes { bytes in
            while true {
                let count = recv(descriptor.raw, bytes.baseAddress, bytes.count, 0)
                if count >= 0 || errno != EINTR { return count }
            }
        }
        guard count != 0 else { throw .closed }
        guard count > 0 else {
            if errno == ECONNRESET { throw .closed }
            throw .system(SystemError.last("recv"))
        }
        buffer += chunk[..<count]
    }
}
