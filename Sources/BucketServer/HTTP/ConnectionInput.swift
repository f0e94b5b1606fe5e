// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc

/// The bytes that a connection has received and not used yet; for the connection's thread only.
final class ConnectionInput {
    private let storage = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 16)
    private var start = 0
    private var end = 0
    private let socket: ConnectionSocket

    init(socket: ConnectionSocket) {
        self.socket = socket
    }

    deinit { storage.deallocate() }

    /// The unused bytes.
    var available: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: storage[start..<end]) }
    var isEmpty: Bool { start == end }

    /// Drops bytes from the front.
    func drop(_ count: Int) {
        start += count
        if start == end {
            start = 0
            end = 0
        }
    }

    /// Receives more when nothing is unused; false at the end of the connection.
    func fill(timeout: Double) throws(ConnectionSocket.Failure) -> Bool {
        guard isEmpty else { return true }
        start = 0
        end = try socket.receive(into: storage, timeout: timeout)
        return end > 0
    }

    /// Gives unused bytes, or else receives directly into `buffer`; 0 at the end of the connection.
    func read(
        into buffer: UnsafeMutableRawBufferPointer,
        timeout: Double
    ) throws(ConnectionSocket.Failure) -> Int {
        if isEmpty { return try socket.receive(into: buffer, timeout: timeout) }
        let count = min(buffer.count, end - start)
        if let target = buffer.baseAddress, let source = available.baseAddress { memcpy(target, source, count) }
        drop(count)
        return count
    }
}
