// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import HTTPWire

/// The limits a server announces in `Upload-Limit`; nil where it sets none.
package struct UploadLimits: Hashable, Sendable {
    /// Bytes of the whole upload.
    package var maxSize: Int64?
    /// Bytes of the whole upload.
    package var minSize: Int64?
    /// Bytes of one request's body.
    package var maxAppendSize: Int64?
    /// Bytes of one request's body, the last one excepted.
    package var minAppendSize: Int64?
    /// Seconds the upload resource lives on.
    package var maxAge: Int64?

    package init(
        maxSize: Int64? = nil,
        minSize: Int64? = nil,
        maxAppendSize: Int64? = nil,
        minAppendSize: Int64? = nil,
        maxAge: Int64? = nil
    ) {
        self.maxSize = maxSize
        self.minSize = minSize
        self.maxAppendSize = maxAppendSize
        self.minAppendSize = minAppendSize
        self.maxAge = maxAge
    }

    /// Reads the field; nil when it is missing, or bad as a whole.
    ///
    /// Unknown keys are ignored.
    package init?(_ fields: HTTPFields) {
        guard !fields.values(UploadProtocol.limitField).isEmpty,
            let members = StructuredFields.dictionary(fields, UploadProtocol.limitField)
        else { return nil }
        self.init()
        for (key, path) in Self.keys {
            guard let member = members[key] else { continue }
            guard let value = member.integer, value >= 0 else { return nil }
            self[keyPath: path] = value
        }
    }

    private static var keys: [(String, WritableKeyPath<UploadLimits, Int64?>)] {
        [
            ("max-size", \.maxSize), ("min-size", \.minSize), ("max-append-size", \.maxAppendSize),
            ("min-append-size", \.minAppendSize), ("expires", \.maxAge), ("max-age", \.maxAge),
        ]
    }

    /// The field's value in the words of `version`; `min-size=0` when there is no limit, as the field must be there.
    package func fieldValue(version: InteropVersion) -> String {
        var members: [(key: String, value: Int64)] = []
        for (key, path) in Self.keys where key != "expires" && key != "max-age" {
            if let value = self[keyPath: path] { members.append((key, value)) }
        }
        if let maxAge { members.append((version.ageKey, maxAge)) }
        return StructuredFields.serialized(members.isEmpty ? [("min-size", 0)] : members)
    }

    /// These limits, replaced by the ones `newer` names.
    package func updated(by newer: UploadLimits?) -> UploadLimits {
        guard let newer else { return self }
        return UploadLimits(
            maxSize: newer.maxSize ?? maxSize,
            minSize: newer.minSize ?? minSize,
            maxAppendSize: newer.maxAppendSize ?? maxAppendSize,
            minAppendSize: newer.minAppendSize ?? minAppendSize,
            maxAge: newer.maxAge ?? maxAge
        )
    }
}
