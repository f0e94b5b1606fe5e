// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import HTTPWire

/// A response as a client reads it: tolerant of what real servers do, never guessing.
package struct UploadAnswer: Hashable, Sendable {
    package let status: Int
    package let fields: HTTPFields
    /// `Upload-Offset`, or the `expected-offset` of a problem document.
    package let offset: Int64?
    /// Whether the upload is complete; nil when the response does not say.
    package let isComplete: Bool?
    package let length: Int64?
    package let limits: UploadLimits?
    package let location: String?
    /// The problem type of the body, when it is one of the protocol's.
    package let problem: UploadProtocol.Problem?
    /// The version the server names, when it names one we know.
    package let version: InteropVersion?

    package init(status: Int, fields: HTTPFields, body: [UInt8] = [], version: InteropVersion) {
        self.status = status
        self.fields = fields
        let document = ProblemDocument(fields: fields, body: body)
        offset = UploadProtocol.count(fields, UploadProtocol.offsetField) ?? document?.expectedOffset
        isComplete = Self.completion(fields, version: version)
        length = UploadProtocol.count(fields, UploadProtocol.lengthField)
        limits = UploadLimits(fields)
        location = fields["Location"]
        problem = document?.problem
        self.version = Self.version(fields)
    }

    package var isSuccess: Bool { (200..<300).contains(status) }

    /// Whether this is an interim response that may be believed (the version is echoed, or there is none).
    package func isInterim(version wanted: InteropVersion) -> Bool {
        guard status == UploadProtocol.resumptionSupported else { return false }
        return fields[UploadProtocol.versionField] == nil ? wanted == .final : version == wanted
    }

    /// Up to version 6 both fields are read: swift-nio-extras writes the one that its version does not have.
    private static func completion(_ fields: HTTPFields, version: InteropVersion) -> Bool? {
        let complete = StructuredFields.boolean(fields, UploadProtocol.completeField)
        guard version <= .v6 else { return complete }
        let inverted = StructuredFields.boolean(fields, UploadProtocol.incompleteField).map { !$0 }
        if let complete, let inverted { return complete == inverted ? complete : nil }
        return complete ?? inverted
    }

    /// The version a message names; nil when it names none or an unknown one.
    package static func version(_ fields: HTTPFields) -> InteropVersion? {
        guard let number = StructuredFields.integer(fields, UploadProtocol.versionField), number > 0 else { return nil }
        return InteropVersion(rawValue: Int(number))
    }
}
