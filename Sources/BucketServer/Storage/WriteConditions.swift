// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire

/// What must hold of the present object for a write to go on: If-Match and If-None-Match as S3 means them.
struct WriteConditions: Hashable, Sendable {
    var ifMatch: EntityTagCondition?
    var ifNoneMatch: EntityTagCondition?

    init(ifMatch: EntityTagCondition? = nil, ifNoneMatch: EntityTagCondition? = nil) {
        self.ifMatch = ifMatch
        self.ifNoneMatch = ifNoneMatch
    }

    /// Reads them from a request.
    init(_ fields: HTTPFields) {
        self.init(
            ifMatch: EntityTagCondition(fields, "If-Match"),
            ifNoneMatch: EntityTagCondition(fields, "If-None-Match")
        )
    }

    var isEmpty: Bool { ifMatch == nil && ifNoneMatch == nil }

    /// Throws `noSuchKey` when If-Match meets no object, `preconditionFailed` when a condition is false.
    func check(_ current: EntityTag?) throws(StorageError) {
        if let ifMatch {
            guard let current else { throw .noSuchKey }
            guard Self.matches(ifMatch, current) else { throw .preconditionFailed }
        }
        if let ifNoneMatch, let current, Self.matches(ifNoneMatch, current) { throw .preconditionFailed }
    }

    private static func matches(_ condition: EntityTagCondition, _ current: EntityTag) -> Bool {
        switch condition {
        case .any: true
        case .tags(let tags): tags.contains { $0.weaklyMatches(current) }
        }
    }
}
