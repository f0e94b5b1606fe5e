// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What the flusher answers.
///
/// On the wire: an object with one member, the reply's name.
package enum ControlReply: Codable, Sendable {
    /// `isEnding`: it gives way to a newer program, which is to connect again; nil from one that never does.
    case welcome(protocolVersion: Int, program: String, pid: Int32, isEnding: Bool? = nil)
    /// The request was carried out and has no other answer.
    case done
    /// The request was not carried out, and why.
    case failed(reason: String)
    case status(report: StatusReport)
    /// `next`: there may be more, to be asked for as ``UploadPage``.
    case uploads(uploads: [UploadReport], next: String? = nil)
    /// The uploads a verb applied to, lines about those it could not, and the places that are paused by it, or no more.
    ///
    /// Of very many uploads the first ones; `count` is how many there are, nil from one that tells of all. `overridden`:
    /// what would hold those that go now.
    case changed(
        uploads: [UploadReport],
        refused: [String],
        pauses: [PauseReport]?,
        count: Int? = nil,
        overridden: [OverriddenReport]? = nil
    )
    case conflicts(conflicts: [ConflictReport])
    /// The conflicts that are settled now, as they were, and lines about those that are not.
    case resolved(conflicts: [ConflictReport], refused: [String])
    /// Indirect: of a payload of this size inside of the value, optimized builds of Swift 6.3 read garbage.
    indirect case policy(report: PolicyReport)
    /// The progress of what was asked for.
    case trees(trees: [TreeReport])
    /// How far a flush is. Several may come before `flushed`.
    case progress(progress: FlushProgress)
    /// A flush is over: `remaining` is empty on success.
    case flushed(remaining: [UploadReport])
}

/// How far a flush is.
package struct FlushProgress: Codable, Sendable, Hashable {
    package var filesTotal: Int
    package var filesDone: Int
    package var bytesTotal: Int64
    package var bytesDone: Int64
    /// Whether the remote cannot be reached now.
    package var isOffline: Bool
    /// What would hold it if nobody waited for it; nil from an earlier version.
    package var overridden: [OverriddenReport]?

    package init(filesTotal: Int, filesDone: Int, bytesTotal: Int64, bytesDone: Int64, isOffline: Bool) {
        self.filesTotal = filesTotal
        self.filesDone = filesDone
        self.bytesTotal = bytesTotal
        self.bytesDone = bytesDone
        self.isOffline = isOffline
    }

    private enum CodingKeys: String, CodingKey {
        case filesTotal = "files_total"
        case filesDone = "files_done"
        case bytesTotal = "bytes_total"
        case bytesDone = "bytes_done"
        case isOffline = "offline"
        case overridden
    }
}

/// Something that happened, sent to subscribers.
package enum ControlEvent: Codable, Sendable {
    /// A path of a volume is now remote as it is locally: its journal row is gone.
    case committed(volume: String, path: String)
    /// A local change met a remote one; ours is now at `copy`.
    case conflict(volume: String, path: String, copy: String)
    /// The queue of a volume changed otherwise: something started, failed, was paused.
    case changed(volume: String)
    /// Nothing is pending in the volume.
    case drained(volume: String)
    /// The remote of a volume became reachable or unreachable.
    case reachable(volume: String, isReachable: Bool)
    /// Events were dropped because this client reads too slowly.
    case overflow
    /// Something happened to an upload, for those that asked by ``ControlRequest/follow(volumes:)``.
    case activity(event: TransferEvent)
}

/// A frame from the flusher: a reply with the number of its request, or an event.
package struct ControlReplyFrame: Codable, Sendable {
    package var id: Int?
    package var reply: ControlReply?
    package var event: ControlEvent?

    package init(id: Int, reply: ControlReply) {
        self.id = id
        self.reply = reply
    }

    package init(event: ControlEvent) {
        self.event = event
    }
}
