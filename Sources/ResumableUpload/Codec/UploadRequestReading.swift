// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import HTTPWire

/// What a server learns from the head of a request: which protocol version it speaks, if any.
package enum UploadRequestKind: Hashable, Sendable {
    /// An ordinary request: no field of the protocol that matters here.
    case plain
    /// A request of the protocol in this version.
    case resumable(InteropVersion)
    /// The version field is there and names nothing we speak; answer 400 and name ours.
    case unknownVersion

    /// Reads a request on the target resource: it belongs to the protocol when it says whether it is complete.
    package static func ofTarget(_ fields: HTTPFields) -> UploadRequestKind {
        let kind = ofUploadResource(fields)
        guard case .resumable(let version) = kind else {
            return mentionsCompletion(fields) ? kind : .plain
        }
        return fields[version.saysIncomplete ? UploadProtocol.incompleteField : UploadProtocol.completeField] == nil
            ? .plain : kind
    }

    /// Reads a request on an upload resource, or an OPTIONS: no version field means the final form.
    package static func ofUploadResource(_ fields: HTTPFields) -> UploadRequestKind {
        guard fields[UploadProtocol.versionField] != nil else { return .resumable(.final) }
        guard let version = UploadAnswer.version(fields) else { return .unknownVersion }
        return .resumable(version)
    }

    private static func mentionsCompletion(_ fields: HTTPFields) -> Bool {
        fields[UploadProtocol.completeField] != nil || fields[UploadProtocol.incompleteField] != nil
    }
}

/// The protocol's fields of a creation or an append as a server reads them, strictly.
package struct UploadRequestFields: Hashable, Sendable {
    /// Whether the request ends the upload.
    package let completes: Bool
    /// Where the body goes; nil on a creation.
    package let offset: Int64?
    /// The length of the whole upload, when the client tells it.
    package let length: Int64?

    /// Reads an append; nil when a required field is missing or bad, or the media type is not the protocol's.
    package init?(append fields: HTTPFields, version: InteropVersion) {
        guard let offset = UploadProtocol.count(fields, UploadProtocol.offsetField),
            let completes = Self.completion(fields, version: version)
        else { return nil }
        self.completes = completes
        self.offset = offset
        length = version.hasLength ? UploadProtocol.count(fields, UploadProtocol.lengthField) : nil
    }

    /// Reads a creation; nil when the completion field is bad or an offset other than 0 is given.
    package init?(creation fields: HTTPFields, version: InteropVersion) {
        guard let completes = UploadProtocol.completion(fields, version: version) else { return nil }
        if fields[UploadProtocol.offsetField] != nil, UploadProtocol.count(fields, UploadProtocol.offsetField) != 0 {
            return nil
        }
        self.completes = completes
        offset = nil
        length = version.hasLength ? UploadProtocol.count(fields, UploadProtocol.lengthField) : nil
    }

    private static func completion(_ fields: HTTPFields, version: InteropVersion) -> Bool? {
        let name = version.saysIncomplete ? UploadProtocol.incompleteField : UploadProtocol.completeField
        if fields[name] == nil, version.missingCompletionCompletes { return true }
        return UploadProtocol.completion(fields, version: version)
    }

    /// Whether an append carries the media type its version asks for.
    package static func hasMediaType(_ fields: HTTPFields, version: InteropVersion) -> Bool {
        guard version.needsMediaType else { return true }
        guard let type = fields["Content-Type"] else { return false }
        let essence = type.prefix { $0 != ";" && $0 != " " && $0 != "\t" }
        return HTTPFields.equal(String(essence), UploadProtocol.mediaType)
    }
}
