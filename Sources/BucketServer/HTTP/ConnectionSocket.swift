// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// The socket of a connection: one thread reads and writes, any thread may shut it down.
///
/// The descriptor is closed with the last reference, so that a late shutdown
/// can never hit another connection's descriptor.
final class ConnectionSocket: Sendable {
    /// How reading or writing ended.
    enum Failure: Error {
        case closed
        case timedOut
    }

    private let file: OpenFile
    private var descriptor: Int32 { file.descriptor.raw }

    private let limits: HTTPLimits

    init(_ file: OpenFile, limits: HTTPLimits) {
        self.file = file
        self.limits = limits
        let sendTimeout = limits.stallTimeout
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
        var timeout = timeval()
        timeout.tv_sec = Int(sendTimeout)
        timeout.tv_usec = Int((sendTimeout - Double(timeout.tv_sec)) * 1_000_000)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    }

    /// Wakes a waiting reader; answers can still be sent.
    func shutdownReading() { _ = shutdown(descriptor, Int32(SHUT_RD)) }
    /// Tells the other side that nothing more will come.
    func shutdownWriting() { _ = shutdown(descriptor, Int32(SHUT_WR)) }
    /// Ends both directions.
    func shutdownBoth() { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }

    /// Receives at least one byte, waiting at most `timeout` seconds; 0 at the end.
    func receive(into buffer: UnsafeMutableRawBufferPointer, timeout: Double) throws(Failure) -> Int {
        let deadline = monotonicSeconds() + timeout
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
            if count >= 0 { return count }
            switch errno {
            case EINTR: continue
            case EAGAIN: try waitReadable(until: deadline)
            default: throw .closed
            }
        }
    }

    private func waitReadable(until deadline: Double) throws(Failure) {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        while true {
            let remaining = deadline - monotonicSeconds()
            guard remaining > 0 else { throw .timedOut }
            let result = poll(&entry, 1, Int32(min(remaining * 1000 + 1, 2_000_000_000)))
            if result > 0 { return }
            if result < 0, errno != EINTR { throw .closed }
        }
    }

    /// Sends all bytes to a side that takes them at the least rate; `more` says that further ones follow at once.
    func send(_ bytes: [UInt8], more: Bool = false) throws(Failure) {
        let flags = Int32(MSG_NOSIGNAL) | (more ? Int32(MSG_MORE) : 0)
        var rate = TransferRate(limits: limits)
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                Glibc.send(descriptor, buffer.baseAddress.map { $0 + done }, buffer.count - done, flags)
            }
            if count > 0 {
                done += count
                guard done == bytes.count || rate.add(count, now: monotonicSeconds()) else { throw .timedOut }
            } else if errno == EAGAIN {
                throw .timedOut
            } else if errno != EINTR {
                throw .closed
            }
        }
    }

    /// Sends a piece of a file from the page cache; returns the bytes sent, fewer when the send timeout passed.
    func sendFile(_ file: Int32, offset: Int64, count: Int) throws(Failure) -> Int {
        var position = off_t(offset)
        while true {
            let sent = sendfile(descriptor, file, &position, count)
            if sent > 0 { return sent }
            // 0: the file is shorter than it was; the promised length can no longer be kept.
            if sent == 0 { throw .closed }
            switch errno {
            case EINTR: continue
            case EAGAIN: throw .timedOut
            default: throw .closed
            }
        }
    }
}
