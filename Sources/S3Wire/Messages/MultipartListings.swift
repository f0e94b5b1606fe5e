// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The answer to ListParts.
package struct ListPartsResult: Hashable, Sendable {
    package struct Part: Hashable, Sendable {
        package var number: Int
        package var size: Int64
        package var entityTag: String
        package var lastModified: Timestamp?
        package var checksum: DocumentChecksum?

        package init(number: Int, size: Int64, entityTag: String, lastModified: Timestamp?) {
            self.number = number
            self.size = size
            self.entityTag = entityTag
            self.lastModified = lastModified
        }
    }

    package var bucket: String
    package var key: ObjectKey
    package var uploadID: String
    package var partNumberMarker: Int
    package var nextPartNumberMarker: Int?
    package var maxParts: Int
    package var isTruncated: Bool
    package var isURLEncoded: Bool
    package var parts: [Part]
    /// The algorithm of the parts' checksums and the type of the object's, as documents write them.
    package var checksumAlgorithm: String?
    package var checksumType: String?

    package init(
        bucket: String,
        key: ObjectKey,
        uploadID: String,
        partNumberMarker: Int,
        nextPartNumberMarker: Int?,
        maxParts: Int,
        isTruncated: Bool,
        isURLEncoded: Bool = false,
        parts: [Part]
    ) {
        self.bucket = bucket
        self.key = key
        self.uploadID = uploadID
        self.partNumberMarker = partNumberMarker
        self.nextPartNumberMarker = nextPartNumberMarker
        self.maxParts = maxParts
        self.isTruncated = isTruncated
        self.isURLEncoded = isURLEncoded
        self.parts = parts
    }

    /// What to ask for next, nil at the end: the last part's number, as some servers' own marker is wrong.
    package var next: Int? { isTruncated ? parts.last?.number : nil }

    package init(_ root: XMLElement) throws(XMLProblem) {
        // moto names the document its own way.
        if root.name != "ListPartsResponse" { try root.expect("ListPartsResult") }
        isURLEncoded = root["EncodingType"] == "url"
        bucket = root["Bucket"] ?? ""
        key = try root.key("Key", isEncoded: isURLEncoded) ?? .root
        uploadID = root["UploadId"] ?? ""
        partNumberMarker = Int(try root.number("PartNumberMarker") ?? 0)
        nextPartNumberMarker = try root.number("NextPartNumberMarker").map { Int($0) }
        maxParts = Int(try root.number("MaxParts") ?? 1000)
        isTruncated = root.boolean("IsTruncated")
        parts = []
        for part in root.all("Part") {
            var read = Part(
                number: Int(try part.requiredNumber("PartNumber")),
                size: try part.requiredNumber("Size"),
                entityTag: try part.required("ETag"),
                lastModified: part.time("LastModified")
            )
            read.checksum = DocumentChecksum(part)
            parts.append(read)
        }
        checksumAlgorithm = root["ChecksumAlgorithm"]
        checksumType = root["ChecksumType"]
    }

    package var xml: [UInt8] {
        var writer = XMLWriter()
        writer.element("ListPartsResult", isNamespaced: true) { writer in
            writer.text("Bucket", bucket)
            writer.key("Key", key, isEncoded: isURLEncoded)
            writer.text("UploadId", uploadID)
            if isURLEncoded { writer.text("EncodingType", "url") }
            writer.text("StorageClass", "STANDARD")
            writer.number("PartNumberMarker", Int64(partNumberMarker))
            if let next = nextPartNumberMarker { writer.number("NextPartNumberMarker", Int64(next)) }
            writer.number("MaxParts", Int64(maxParts))
            writer.boolean("IsTruncated", isTruncated)
            if let checksumAlgorithm { writer.text("ChecksumAlgorithm", checksumAlgorithm) }
            if let checksumType { writer.text("ChecksumType", checksumType) }
            for part in parts {
                writer.element("Part") { writer in
                    writer.number("PartNumber", Int64(part.number))
                    if let time = part.lastModified { writer.text("LastModified", time.rfc3339) }
                    writer.text("ETag", part.entityTag)
                    writer.number("Size", part.size)
                    part.checksum?.write(to: &writer)
                }
            }
        }
        return writer.bytes
    }
}

/// The answer to ListMultipartUploads.
package struct ListMultipartUploadsResult: Hashable, Sendable {
    package struct Upload: Hashable, Sendable {
        package var key: ObjectKey
        package var uploadID: String
        package var initiated: Timestamp?
        /// The id of whoever began it.
        package var initiator: String?

        package init(key: ObjectKey, uploadID: String, initiated: Timestamp?, initiator: String? = nil) {
            self.key = key
            self.uploadID = uploadID
            self.initiated = initiated
            self.initiator = initiator
        }
    }

    package var bucket: String
    package var prefix: ObjectKey
    package var delimiter: ObjectKey?
    package var keyMarker: ObjectKey
    package var uploadIDMarker: String
    package var nextKeyMarker: ObjectKey?
    package var nextUploadIDMarker: String?
    package var maxUploads: Int
    package var isTruncated: Bool
    package var isURLEncoded: Bool
    package var uploads: [Upload]
    package var commonPrefixes: [ObjectKey]

    package init(bucket: String, uploads: [Upload]) {
        self.bucket = bucket
        prefix = .root
        keyMarker = .root
        uploadIDMarker = ""
        maxUploads = 1000
        isTruncated = false
        isURLEncoded = false
        self.uploads = uploads
        commonPrefixes = []
    }

    package init(_ root: XMLElement) throws(XMLProblem) {
        try root.expect("ListMultipartUploadsResult")
        let isEncoded = root["EncodingType"] == "url"
        isURLEncoded = isEncoded
        bucket = root["Bucket"] ?? ""
        prefix = try root.key("Prefix", isEncoded: isEncoded) ?? .root
        delimiter = try root.key("Delimiter", isEncoded: isEncoded)
        keyMarker = try root.key("KeyMarker", isEncoded: isEncoded) ?? .root
        uploadIDMarker = root["UploadIdMarker"] ?? ""
        nextKeyMarker = try root.key("NextKeyMarker", isEncoded: isEncoded)
        nextUploadIDMarker = root["NextUploadIdMarker"]
        maxUploads = Int(try root.number("MaxUploads") ?? 1000)
        isTruncated = root.boolean("IsTruncated")
        uploads = []
        for upload in root.all("Upload") {
            guard let key = try upload.key("Key", isEncoded: isEncoded) else {
                throw XMLProblem("<Upload> without <Key>")
            }
            let id = try upload.required("UploadId")
            let initiator = upload.first("Initiator")?["ID"]
            uploads.append(Upload(key: key, uploadID: id, initiated: upload.time("Initiated"), initiator: initiator))
        }
        commonPrefixes = []
        for element in root.all("CommonPrefixes") {
            if let key = try element.key("Prefix", isEncoded: isEncoded) { commonPrefixes.append(key) }
        }
    }

    package var xml: [UInt8] {
        var writer = XMLWriter()
        writer.element("ListMultipartUploadsResult", isNamespaced: true) { writer in
            writer.text("Bucket", bucket)
            writer.key("Prefix", prefix, isEncoded: isURLEncoded)
            if let delimiter { writer.key("Delimiter", delimiter, isEncoded: isURLEncoded) }
            writer.key("KeyMarker", keyMarker, isEncoded: isURLEncoded)
            writer.text("UploadIdMarker", uploadIDMarker)
            if let next = nextKeyMarker { writer.key("NextKeyMarker", next, isEncoded: isURLEncoded) }
            if let next = nextUploadIDMarker { writer.text("NextUploadIdMarker", next) }
            if isURLEncoded { writer.text("EncodingType", "url") }
            writer.number("MaxUploads", Int64(maxUploads))
            writer.boolean("IsTruncated", isTruncated)
            for upload in uploads {
                writer.element("Upload") { writer in
                    writer.key("Key", upload.key, isEncoded: isURLEncoded)
                    writer.text("UploadId", upload.uploadID)
                    if let initiator = upload.initiator {
                        writer.element("Initiator") { $0.text("ID", initiator) }
                    }
                    writer.text("StorageClass", "STANDARD")
                    if let time = upload.initiated { writer.text("Initiated", time.rfc3339) }
                }
            }
            for prefix in commonPrefixes {
                writer.element("CommonPrefixes") { $0.key("Prefix", prefix, isEncoded: isURLEncoded) }
            }
        }
        return writer.bytes
    }
}
