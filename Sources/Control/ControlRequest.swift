// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What a client asks of the flusher.
///
/// On the wire: an object with one member, the request's name.
package enum ControlRequest: Codable, Sendable {
    /// Must be the first request; the flusher answers `welcome`, and gives way to a program of a newer `version`.
    case hello(protocolVersion: Int, program: String, version: String? = nil)
    /// Hands over credentials, which are kept in memory only. `volume` nil: for every volume that has none of its own.
    case credentials(volume: String?, credentials: HandedCredentials)
    /// There may be new work in a volume (nil: in any), or the network may be back: look now.
    case wake(volume: String?)
    /// When uploads of a volume are to go was changed in its journal, which no change of a file tells of: read all of it.
    case reread(volume: String)
    /// Answered with `status`.
    case status
    /// Answered with `uploads`; an empty selection means all. `page` nil: the first ones, as many as fit into a frame.
    case uploads(selection: UploadSelection, page: UploadPage? = nil)
    /// The progress of a selection's volumes, or paths, as trees; answered with `trees`.
    case trees(selection: UploadSelection)
    /// A verb on uploads; answered with `changed`.
    case change(verb: UploadVerb, selection: UploadSelection)
    /// Answered with `conflicts`; an empty selection means all.
    case conflicts(selection: UploadSelection)
    /// Settles conflicts, whose paths or copies are selected; answered with `resolved`.
    case resolve(keep: ConflictReport.Choice, selection: UploadSelection)
    /// Uploads everything under the selection now; `progress` replies, then `flushed`.
    case flush(selection: UploadSelection, timeout: Double?)
    /// Answered with `policy`.
    case policy
    /// Sets rules or facts for now; answered with `policy`. `seconds` nil: until they are unset.
    case setPolicy(changes: [PolicyChange], seconds: Double?)
    /// Unsets them, all of them when none is named; answered with `policy`.
    case unsetPolicy(keys: [String])
    /// From now on events are sent on this connection.
    case subscribe
    /// From now on what happens to the uploads of these volumes, none: of all, is sent on this connection as `activity`.
    case follow(volumes: [String])
    /// The flusher gives up its requests, commits and ends. Understood in every version of the protocol.
    case stop
}

/// Which part of a long list of uploads is asked for: as many as the flusher likes to tell at once.
package struct UploadPage: Codable, Sendable, Hashable {
    /// What the answer before told as `next`; nil: from the beginning.
    package var after: String?

    package init(after: String? = nil) {
        self.after = after
    }
}

/// A request with the number its replies carry.
package struct ControlRequestFrame: Codable, Sendable {
    package var id: Int
    package var request: ControlRequest

    package init(id: Int, request: ControlRequest) {
        self.id = id
        self.request = request
    }
}

/// Access keys given from one process to another of the same user through the socket; never logged, never stored.
package struct HandedCredentials: Codable, Sendable, Hashable, CustomStringConvertible, CustomReflectable {
    package var accessKeyID: String
    package var secretAccessKey: String
    package var sessionToken: String?

    package init(accessKeyID: String, secretAccessKey: String, sessionToken: String? = nil) {
        self.accessKeyID = accessKeyID
        self.secretAccessKey = secretAccessKey
        self.sessionToken = sessionToken
    }

    package var description: String { "credentials of \(accessKeyID)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// What is done to uploads.
package enum UploadVerb: String, Codable, Sendable, CaseIterable {
    /// Holds them until `resume`; a transfer stops and keeps what the remote acknowledged.
    case pause
    case resume
    /// Starts them without regard to quiet period, backoff, not-before and the machine's conditions.
    case now
    /// Gives up the local change: the path shows the remote's content again.
    case cancel
    /// Like `now`, and clears what asks for a person's attention.
    case retry
}

/// Which uploads are meant: all, or those at or below a path, or those with an id.
package struct UploadSelection: Codable, Sendable, Hashable {
    /// Volume ids; empty: every volume.
    package var volumes: [String]
    /// Paths in the volume, no leading or trailing slash; a folder means all below.
    ///
    /// Empty with no ids: everything.
    package var paths: [String]
    /// Ids as `uploads list` prints them.
    package var ids: [String]

    package init(volumes: [String] = [], paths: [String] = [], ids: [String] = []) {
        self.volumes = volumes
        self.paths = paths
        self.ids = ids
    }

    package var isEverything: Bool { volumes.isEmpty && paths.isEmpty && ids.isEmpty }
}
