// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire

/// What must hold of the present object for a write to go on: If-Match and If-None-Match as S3 means them,
/// If-Unmodified-Since (RFC 9110, section 13.1.4), and S3's own conditions on size and time.
struct WriteConditions: Hashable, Sendable {
    var ifMatch: EntityTagCondition?
    var ifNoneMatch: EntityTagCondition?
    /// The object must not be newer, in seconds since 1970.
    var unmodifiedSince: Int64?
    /// The object must be exactly this old, in seconds since 1970.
    var modified: Int64?
    /// The object must have this many bytes.
    var size: Int64?

    init(ifMatch: EntityTagCondition? = nil, ifNoneMatch: EntityTagCondition? = nil) {
        self.ifMatch = ifMatch
        self.ifNoneMatch = ifNoneMatch
    }

    /// Reads them from a request, those on size and time too.
    init(_ fields: HTTPFields) {
        self.init(
            ifMatch: EntityTagCondition(fields, "If-Match"),
            ifNoneMatch: EntityTagCondition(fields, "If-None-Match")
        )
        if ifMatch == nil { unmodifiedSince = fields["If-Unmodified-Since"].flatMap { HTTPDate.parse($0)?.seconds } }
    }

    var isEmpty: Bool { self == WriteConditions() }

    /// Throws `noSuchKey` when a condition meets no object, `preconditionFailed` when one is false.
    ///
    /// If-None-Match and If-Unmodified-Since hold where nothing is.
    func check(_ current: StoredObject?) throws(StorageError) {
        guard let current else {
            guard ifMatch == nil, modified == nil, size == nil else { throw .noSuchKey }
            return
        }
        let record = current.record
        let time = record.modified.seconds
        guard ifMatch.map({ Self.matches($0, record.tag, strongly: true) }) ?? true,
            !(ifNoneMatch.map { Self.matches($0, record.tag, strongly: false) } ?? false),
            time <= unmodifiedSince ?? .max, time == modified ?? time, current.size == size ?? current.size
        else { throw .preconditionFailed }
    }

    private static func matches(_ condition: EntityTagCondition, _ current: EntityTag, strongly: Bool) -> Bool {
        switch condition {
        case .any: true
        case .tags(let tags): tags.contains { strongly ? $0.stronglyMatches(current) : $0.weaklyMatches(current) }
        }
    }
}
