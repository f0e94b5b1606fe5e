// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The answer to CreateMultipartUpload: `InitiateMultipartUploadResult`.
package struct CreateMultipartUploadResult: Hashable, Sendable {
    package var bucket: String
    package var key: ObjectKey
    package var uploadID: String

    package init(bucket: String, key: ObjectKey, uploadID: String) {
        self.bucket = bucket
        self.key = key
        self.uploadID = uploadID
    }

    package init(_ root: XMLElement) throws(XMLProblem) {
        // rclone names the document after the operation.
        if root.name != "InitiateMultipartUpload" { try root.expect("InitiateMultipartUploadResult") }
        bucket = root["Bucket"] ?? ""
        key = ObjectKey(root["Key"] ?? "")
        uploadID = try root.required("UploadId")
        if uploadID.isEmpty { throw XMLProblem("an empty <UploadId>") }
    }

    package var xml: [UInt8] {
        var writer = XMLWriter()
        writer.element("InitiateMultipartUploadResult", isNamespaced: true) { writer in
            writer.text("Bucket", bucket)
            writer.key("Key", key, isEncoded: false)
            writer.text("UploadId", uploadID)
        }
        return writer.bytes
    }
}

/// The body of a CompleteMultipartUpload request.
package struct CompleteMultipartUploadRequest: Hashable, Sendable {
    package struct Part: Hashable, Sendable {
        package var number: Int
        /// As it stands in the document: quoted or not.
        package var entityTag: String

        package init(number: Int, entityTag: String) {
            self.number = number
            self.entityTag = entityTag
        }
    }

    package var parts: [Part]

    package init(parts: [Part]) {
        self.parts = parts
    }

    package init(_ root: XMLElement) throws(XMLProblem) {
        try root.expect("CompleteMultipartUpload")
        parts = []
        for part in root.all("Part") {
            let number = try part.requiredNumber("PartNumber")
            guard (1...10_000).contains(number) else { throw XMLProblem("part number \(number)") }
            parts.append(Part(number: Int(number), entityTag: try part.required("ETag")))
        }
        if parts.isEmpty { throw XMLProblem("no <Part>") }
    }

    package var xml: [UInt8] {
        var writer = XMLWriter()
        writer.element("CompleteMultipartUpload", isNamespaced: true) { writer in
            for part in parts {
                writer.element("Part") { writer in
                    writer.number("PartNumber", Int64(part.number))
                    writer.text("ETag", part.entityTag)
                }
            }
        }
        return writer.bytes
    }
}

/// The answer to CompleteMultipartUpload.
package struct CompleteMultipartUploadResult: Hashable, Sendable {
    package var location: String
    package var bucket: String
    package var key: ObjectKey
    package var entityTag: String
    package var checksum: DocumentChecksum?

    package init(location: String, bucket: String, key: ObjectKey, entityTag: String) {
        self.location = location
        self.bucket = bucket
        self.key = key
        self.entityTag = entityTag
    }

    package init(_ root: XMLElement) throws(XMLProblem) {
        try root.expect("CompleteMultipartUploadResult")
        location = root["Location"] ?? ""
        bucket = root["Bucket"] ?? ""
        key = ObjectKey(root["Key"] ?? "")
        // Ceph answers a first completion with an empty tag.
        entityTag = root["ETag"] ?? ""
        checksum = DocumentChecksum(root)
    }

    package var xml: [UInt8] {
        var writer = XMLWriter()
        writer.element("CompleteMultipartUploadResult", isNamespaced: true) { writer in
            writer.text("Location", location)
            writer.text("Bucket", bucket)
            writer.key("Key", key, isEncoded: false)
            writer.text("ETag", entityTag)
            checksum?.write(to: &writer)
        }
        return writer.bytes
    }
}

/// The answer to CopyObject and UploadPartCopy.
package struct CopyResult: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable {
        case object = "CopyObjectResult"
        case part = "CopyPartResult"
    }

    package var kind: Kind
    package var entityTag: String
    package var lastModified: Timestamp?
    package var checksum: DocumentChecksum?

    package init(kind: Kind, entityTag: String, lastModified: Timestamp?) {
        self.kind = kind
        self.entityTag = entityTag
        self.lastModified = lastModified
    }

    /// Reads a document of the wanted kind.
    package init(_ root: XMLElement, kind: Kind) throws(XMLProblem) {
        try root.expect(kind.rawValue)
        self.kind = kind
        // rclone leaves it out when an object is copied onto itself.
        entityTag = kind == .object ? root["ETag"] ?? "" : try root.required("ETag")
        lastModified = root.time("LastModified")
        checksum = DocumentChecksum(root)
    }

    package var xml: [UInt8] {
        var writer = XMLWriter()
        writer.element(kind.rawValue, isNamespaced: true) { writer in
            if let lastModified { writer.text("LastModified", lastModified.rfc3339) }
            writer.text("ETag", entityTag)
            checksum?.write(to: &writer)
        }
        return writer.bytes
    }
}
