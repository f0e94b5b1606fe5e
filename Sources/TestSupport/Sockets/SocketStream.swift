// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc
package import Platform

/// A TCP connection read through a buffer, by blocking calls that another thread can end.
///
/// One thread reads, and one thread at a time writes; `isEnded` is asked at
/// least every 50 ms, which is how a relay is stopped from outside.
package final class SocketStream: @unchecked Sendable {
    // The buffer and its bounds belong to the reading thread alone.
    package let socket: FileDescriptor
    private let isEnded: @Sendable () -> Bool
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 16)
    private var start = 0
    private var end = 0

    private static let slice: Int32 = 50

    package init(_ socket: consuming FileDescriptor, isEnded: @escaping @Sendable () -> Bool) {
        self.socket = socket
        self.isEnded = isEnded
    }

    deinit {
        buffer.deallocate()
    }

    /// What has arrived and is not consumed, at most `limit` bytes; waits for some; nil at the end or after an error.
    ///
    /// The pointer is valid until the next call on the stream.
    package func available(limit: Int = .max) -> UnsafeRawBufferPointer? {
        if start == end, !receive() { return nil }
        return UnsafeRawBufferPointer(rebasing: buffer[start..<min(end, start + min(limit, buffer.count))])
    }

    /// Marks the first `count` bytes of ``available(limit:)`` as used.
    package func consume(_ count: Int) {
        start += count
        if start == end { (start, end) = (0, 0) }
    }

    /// A message head up to and with its empty line; nil at the end, after an error or beyond `limit` bytes.
    package func readHead(limit: Int = 1 << 18) -> [UInt8]? {
        var head: [UInt8] = []
        while head.count < limit {
            guard let bytes = available() else { return nil }
            for (index, byte) in bytes.enumerated() {
                head.append(byte)
                if byte == 0x0A, head.count >= 4, head[head.count - 2] == 0x0D, head[head.count - 3] == 0x0A {
                    consume(index + 1)
                    return head
                }
            }
            consume(bytes.count)
        }
        return nil
    }

    /// A line without its end; nil at the end of the stream.
    package func readLine(limit: Int = 1 << 18) -> String? {
        var line: [UInt8] = []
        while line.count < limit {
            guard let bytes = available() else { return nil }
            let part = bytes.prefix { $0 != 0x0A }
            line += part
            let isWhole = part.count < bytes.count
            consume(part.count + (isWhole ? 1 : 0))
            if isWhole { return String(decoding: line, as: UTF8.self) }
        }
        return nil
    }

    /// Sends all bytes; false when the peer is gone or the stream was ended.
    package func write(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var done = 0
        let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
        while done < bytes.count {
            if isEnded() { return false }
            let count = send(socket.raw, bytes.baseAddress.map { $0 + done }, bytes.count - done, flags)
            if count >= 0 {
                done += count
            } else if errno == EAGAIN {
                _ = LoopbackSocket.isReady(socket, POLLOUT, milliseconds: Self.slice)
            } else if errno != EINTR {
                return false
            }
        }
        return true
    }

    /// Sends all bytes of an array; see ``write(_:)-(UnsafeRawBufferPointer)``.
    package func write(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { write($0) }
    }

    /// Ends the sending side, then reads what the peer still sends, so that the close is no reset.
    package func finishPolitely() {
        shutdown(socket.raw, Int32(SHUT_WR))
        for _ in 0..<100 {
            guard LoopbackSocket.isReady(socket, POLLIN, milliseconds: 10) else { continue }
            if recv(socket.raw, buffer.baseAddress, buffer.count, 0) <= 0 { return }
        }
    }

    private func receive() -> Bool {
        while !isEnded() {
            guard LoopbackSocket.isReady(socket, POLLIN, milliseconds: Self.slice) else { continue }
            if isEnded() { return false }
            let count = recv(socket.raw, buffer.baseAddress, buffer.count, 0)
            if count > 0 {
                (start, end) = (0, count)
                return true
            }
            if count == 0 || errno != EINTR { return false }
        }
        return false
    }
}
