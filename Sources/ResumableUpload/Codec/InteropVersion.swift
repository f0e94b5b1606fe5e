// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A version of the wire protocol of draft-ietf-httpbis-resumable-upload, by its interop number.
///
/// The properties are what differs between them; they are cumulative, so most are a comparison.
package enum InteropVersion: Int, CaseIterable, Comparable, Hashable, Sendable {
    /// draft -01: `Upload-Incomplete`.
    case v3 = 3
    /// draft -02: `Upload-Complete`, its inverse.
    case v4 = 4
    /// draft -03: progress in repeated 104 responses, empty creation.
    case v5 = 5
    /// drafts -04 and -05: media type of PATCH, `Upload-Limit`, `Upload-Length`, problem types.
    case v6 = 6
    /// drafts -06 to -08: `max-age`, Upload-Complete on every answer to an append.
    case v7 = 7
    /// drafts -09 to -11: limits are binding.
    case v8 = 8
    /// draft -12: GET of the offset, completed uploads are no error of their own.
    case v9 = 9
    /// The RFC: as version 9, without a version field.
    case final = 0

    /// Every version from the newest numbered one down, then the final form: the order to ask a server in.
    package static let discoveryOrder: [InteropVersion] = [.v9, .v8, .v7, .v6, .v5, .v4, .v3, .final]

    private var rank: Int { self == .final ? 1000 : rawValue }

    package static func < (left: InteropVersion, right: InteropVersion) -> Bool { left.rank < right.rank }

    /// The value of the version field; nil for the final form, which has none.
    package var fieldValue: String? { self == .final ? nil : String(rawValue) }

    /// Whether completion is said by `Upload-Incomplete`, true meaning more to come.
    package var saysIncomplete: Bool { self == .v3 }
    /// Whether an append without a completion field completes the upload.
    package var missingCompletionCompletes: Bool { self == .v3 }
    /// Whether repeated 104 responses tell the progress.
    package var hasProgress: Bool { self >= .v5 }
    /// Whether an append must carry the media type ``UploadProtocol/mediaType``.
    package var needsMediaType: Bool { self >= .v6 }
    /// Whether `Upload-Limit` exists.
    package var hasLimits: Bool { self >= .v6 }
    /// The key of `Upload-Limit` for the remaining life in seconds.
    package var ageKey: String { self <= .v6 ? "expires" : "max-age" }
    /// Whether `Upload-Length` exists.
    package var hasLength: Bool { self >= .v6 }
    /// Whether an append to a completed upload is answered by a problem type of its own.
    package var hasCompletedProblem: Bool { self >= .v6 && self <= .v8 }
    /// Whether requests for the offset and for cancellation must be free of the protocol's other fields.
    package var forbidsFieldsOnRetrieval: Bool { self <= .v8 }
    /// Whether an answer of the upload layer may leave `Upload-Complete` out without meaning completion.
    package var hasDefinedAnswers: Bool { self >= .v7 }
    /// The status of a request whose body was stored while more is to come.
    package var incompleteAppendStatus: Int { self <= .v6 ? 201 : 204 }
}
