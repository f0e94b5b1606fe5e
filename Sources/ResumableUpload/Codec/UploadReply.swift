// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import HTTPWire

/// The heads of the responses a server gives, in the words of each version.
package enum UploadReply {
    /// The facts of an upload that its responses tell.
    package struct State: Hashable, Sendable {
        package var offset: Int64
        package var isComplete: Bool
        package var length: Int64?
        package var limits: UploadLimits

        package init(offset: Int64, isComplete: Bool, length: Int64? = nil, limits: UploadLimits = UploadLimits()) {
            self.offset = offset
            self.isComplete = isComplete
            self.length = length
            self.limits = limits
        }
    }

    /// The 104 that announces the upload resource, before the body is read.
    package static func announcement(_ version: InteropVersion, location: String, limits: UploadLimits) -> HTTPFields {
        var fields = head(version)
        fields["Location"] = location
        setLimits(limits, version: version, in: &fields)
        return fields
    }

    /// A 104 that acknowledges bytes; only for versions with ``InteropVersion/hasProgress``.
    package static func progress(_ version: InteropVersion, offset: Int64) -> HTTPFields {
        var fields = head(version)
        fields[UploadProtocol.offsetField] = StructuredFields.serialized(offset)
        return fields
    }

    /// The fields of a creation that was stored while more is to come; status 201.
    package static func created(_ version: InteropVersion, location: String, state: State) -> HTTPFields {
        var fields = incomplete(version, state: state)
        fields["Location"] = location
        return fields
    }

    /// The fields of an append that was stored while more is to come.
    package static func incomplete(_ version: InteropVersion, state: State) -> HTTPFields {
        var fields = head(version)
        fields[UploadProtocol.offsetField] = StructuredFields.serialized(state.offset)
        UploadProtocol.setCompletion(false, version: version, in: &fields)
        setLimits(state.limits, version: version, in: &fields)
        return fields
    }

    /// The fields of the answer to a request for the offset.
    package static func offset(_ version: InteropVersion, state: State) -> HTTPFields {
        var fields = head(version)
        fields[UploadProtocol.offsetField] = StructuredFields.serialized(state.offset)
        UploadProtocol.setCompletion(state.isComplete, version: version, in: &fields)
        if version.hasLength, let length = state.length {
            fields[UploadProtocol.lengthField] = StructuredFields.serialized(length)
        }
        setLimits(state.limits, version: version, in: &fields)
        fields["Cache-Control"] = "no-store"
        return fields
    }

    /// Marks the target's own answer to the whole upload, in place.
    package static func markFinal(_ fields: inout HTTPFields, version: InteropVersion, offset: Int64) {
        for field in head(version).fields { fields[field.name] = field.value }
        UploadProtocol.setCompletion(true, version: version, in: &fields)
        fields[UploadProtocol.offsetField] = StructuredFields.serialized(offset)
    }

    /// The fields of the answer to OPTIONS.
    package static func options(_ version: InteropVersion, limits: UploadLimits) -> HTTPFields {
        var fields = head(version)
        fields[UploadProtocol.limitField] = limits.fieldValue(version: version)
        fields["Accept-Patch"] = UploadProtocol.mediaType
        fields["Cache-Control"] = "no-store"
        return fields
    }

    /// The fields of the answer to a cancellation.
    package static func cancelled(_ version: InteropVersion) -> HTTPFields { head(version) }

    /// The fields of an error of the upload layer.
    package static func refused(_ version: InteropVersion) -> HTTPFields {
        var fields = head(version)
        UploadProtocol.setCompletion(false, version: version, in: &fields)
        return fields
    }

    /// The fields of a refusal of what is above the limits: it has to tell them.
    package static func tooLarge(_ version: InteropVersion, limits: UploadLimits) -> HTTPFields {
        var fields = refused(version)
        setLimits(limits, version: version, in: &fields)
        return fields
    }

    /// The fields that answer a version we do not speak.
    package static let unknownVersion = HTTPFields([
        HTTPFields.Field(name: UploadProtocol.versionField, value: "9")
    ])

    private static func head(_ version: InteropVersion) -> HTTPFields {
        var fields = HTTPFields()
        fields[UploadProtocol.versionField] = version.fieldValue
        return fields
    }

    private static func setLimits(_ limits: UploadLimits, version: InteropVersion, in fields: inout HTTPFields) {
        guard version.hasLimits else { return }
        fields[UploadProtocol.limitField] = limits.fieldValue(version: version)
    }
}
