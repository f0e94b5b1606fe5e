// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform
internal import Synchronization

/// A client's connection to the flusher.
///
/// One thread at a time uses it; ``shutdown()`` may come from any.
package final class ControlClient: Sendable {
    /// The flusher's pid, as it said.
    package let flusherPID: Int32
    private let channel: FrameChannel
    private let lastID = Atomic<Int>(1)

    /// Connects to the socket at `path` and agrees on the protocol's version.
    ///
    /// `program` names the client in the flusher's log, such as `mount`; to a newer `version` of it an older flusher
    /// gives way, and `.handingOver` is thrown.
    package init(connectingTo path: String, program: String, version: String? = nil) throws(ControlError) {
        let channel: FrameChannel
        do throws(SystemError) {
            channel = FrameChannel(try UnixSocket.connect(to: path))
        } catch {
            throw .system(error)
        }
        // Credentials go this way: a folder in /tmp may have been deleted and made anew by somebody else.
        guard let peer = try? channel.peer(), peer.uid == geteuid() else {
            throw .refused("\(path) belongs to another user")
        }
        self.channel = channel
        let hello = ControlRequest.hello(protocolVersion: ControlProtocol.version, program: program, version: version)
        try channel.send(try JSON.encode(ControlRequestFrame(id: 1, request: hello)))
        guard let frame = try channel.receive(timeout: 10) else { throw .timeout }
        switch try JSON.decode(ControlReplyFrame.self, from: frame).reply {
        case .welcome(_, _, _, true): throw .handingOver
        case .welcome(let theirs, let name, let pid, let isEnding) where theirs == ControlProtocol.version:
            // One that knows nothing of giving way is asked in words that it understands.
            if isEnding == nil, let version, ProgramVersion(version) > ProgramVersion(name) {
                throw .incompatible(theirs: theirs)
            }
            flusherPID = pid
        case .welcome(let version, _, _, _): throw .incompatible(theirs: version)
        case .failed(let reason): throw .refused(reason)
        default: throw .malformed("no welcome")
        }
    }

    /// Sends a request and returns its last reply; `failed` is thrown as ``ControlError/refused(_:)``.
    package func call(_ request: ControlRequest, timeout: Double? = 60) throws(ControlError) -> ControlReply {
        try stream(request, timeout: timeout) { _ in }
    }

    /// Sends a request whose `progress` replies are given to `onProgress` until the last reply comes.
    ///
    /// `timeout` bounds the wait for each frame, in seconds. Events that come in between are dropped.
    package func stream(
        _ request: ControlRequest,
        timeout: Double?,
        onProgress: (FlushProgress) -> Void
    ) throws(ControlError) -> ControlReply {
        let id = lastID.add(1, ordering: .relaxed).newValue
        try channel.send(try JSON.encode(ControlRequestFrame(id: id, request: request)))
        while true {
            guard let bytes = try channel.receive(timeout: timeout) else { throw .timeout }
            let frame = try JSON.decode(ControlReplyFrame.self, from: bytes)
            guard frame.id == id, let reply = frame.reply else { continue }
            switch reply {
            case .progress(let progress): onProgress(progress)
            case .failed(let reason): throw .refused(reason)
            default: return reply
            }
        }
    }

    /// The next event after `subscribe`, nil when `timeout` seconds pass first.
    package func nextEvent(timeout: Double?) throws(ControlError) -> ControlEvent? {
        let end = timeout.map { AttendedClock.shared.seconds + $0 }
        while true {
            guard let bytes = try channel.receive(timeout: end.map { max(0, $0 - AttendedClock.shared.seconds) }) else {
                return nil
            }
            if let event = try JSON.decode(ControlReplyFrame.self, from: bytes).event { return event }
        }
    }

    /// Ends the connection; a blocked call throws ``ControlError/closed``.
    package func shutdown() {
        channel.shutdown()
    }
}
