// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import HTTPWire

/// The names and constants of resumable uploads over HTTP.
package enum UploadProtocol {
    package static let versionField = "Upload-Draft-Interop-Version"
    package static let completeField = "Upload-Complete"
    package static let incompleteField = "Upload-Incomplete"
    package static let offsetField = "Upload-Offset"
    package static let lengthField = "Upload-Length"
    package static let limitField = "Upload-Limit"
    /// Every field of the protocol: what a server takes out before it hands a request to the plain handler.
    package static let fields = [versionField, completeField, incompleteField, offsetField, lengthField, limitField]
    /// The media type of an append.
    package static let mediaType = "application/partial-upload"
    /// The interim status that announces resumption.
    package static let resumptionSupported = 104
    /// The media type of problem details (RFC 9457).
    package static let problemType = "application/problem+json"

    /// The registered problem types.
    package enum Problem: String, CaseIterable, Sendable {
        case mismatchingOffset = "mismatching-upload-offset"
        case completedUpload = "completed-upload"
        case inconsistentLength = "inconsistent-upload-length"

        package var uri: String { "https://iana.org/assignments/http-problem-types#" + rawValue }

        package var title: String {
            switch self {
            case .mismatchingOffset: "offset from request does not match offset of resource"
            case .completedUpload: "upload is already completed"
            case .inconsistentLength: "inconsistent length values for upload"
            }
        }

        package var status: Int { self == .mismatchingOffset ? 409 : 400 }
    }

    /// The fields that say whether the upload is complete, in the words of `version`.
    package static func setCompletion(_ complete: Bool, version: InteropVersion, in fields: inout HTTPFields) {
        if version.saysIncomplete {
            fields[incompleteField] = StructuredFields.serialized(!complete)
        } else {
            fields[completeField] = StructuredFields.serialized(complete)
        }
    }

    /// Reads whether a message calls the upload complete, strictly in the words of `version`.
    package static func completion(_ fields: HTTPFields, version: InteropVersion) -> Bool? {
        if version.saysIncomplete {
            return StructuredFields.boolean(fields, incompleteField).map { !$0 }
        }
        return StructuredFields.boolean(fields, completeField)
    }

    /// Reads a field that must be a non-negative Integer; anything else counts as absent.
    package static func count(_ fields: HTTPFields, _ name: String) -> Int64? {
        guard let value = StructuredFields.integer(fields, name), value >= 0 else { return nil }
        return value
    }
}
