// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import ObjectStore

/// What is known about conditional writes at a server.
struct S3Conditions: Sendable {
    enum Support: Sendable {
        case unknown
        /// Somebody is finding out; wait.
        case beingProbed
        case enforced
        /// Ignored or refused: the store has to look first, which leaves a gap.
        case ignored
        /// It could not be found out: the store looks first, and sends the condition as well.
        case unproven
    }

    /// What a condition goes with; a server may enforce it for one and refuse it for another.
    enum Write: Hashable, Sendable {
        case object
        case completion
        case copy
        case deletion

        /// In the words of a log.
        var name: String {
            switch self {
            case .object: "writes"
            case .completion: "the completion of multipart uploads"
            case .copy: "copies"
            case .deletion: "deletions"
            }
        }
    }

    var support = Support.unknown
    /// What the server refuses to do under a condition, whatever that is: the store looks first, and sends none with these.
    var refusing: Set<Write> = []
    /// Whether If-Match wants the tag without quotes (Ceph RGW 16).
    var usesBareTags = false

    /// Adds the fields for a condition.
    func add(_ condition: WriteCondition, to fields: inout HTTPFields) {
        switch condition {
        case .none: break
        case .absent: fields.append("If-None-Match", "*")
        case .version(let version):
            guard let tag = version.entityTag, !tag.isWeak else { return }
            fields.append("If-Match", usesBareTags ? tag.opaque : tag.fieldValue)
        }
    }
}
