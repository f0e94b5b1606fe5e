// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
package import HTTPWire

/// The answer to ListObjects (version 1) and ListObjectsV2: `ListBucketResult`.
package struct ListObjectsResult: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        package var key: ObjectKey
        package var size: Int64
        /// As it stands in the document, usually quoted.
        package var entityTag: String?
        package var lastModified: Timestamp?
        /// The object's metadata as a HEAD would tell it (`UserMetadata`), empty where it has none; nil: not told.
        package var metadata: HTTPFields?

        package init(
            key: ObjectKey,
            size: Int64,
            entityTag: String?,
            lastModified: Timestamp?,
            metadata: HTTPFields? = nil
        ) {
            self.key = key
            self.size = size
            self.entityTag = entityTag
            self.lastModified = lastModified
            self.metadata = metadata
        }
    }

    /// What only one of the two versions has.
    package enum Paging: Hashable, Sendable {
        case v1(marker: ObjectKey?, nextMarker: ObjectKey?)
        case v2(continuationToken: String?, nextContinuationToken: String?, startAfter: ObjectKey?)
    }

    package var bucket: String
    package var prefix: ObjectKey
    package var delimiter: ObjectKey?
    package var maxKeys: Int
    package var isTruncated: Bool
    /// Whether keys are percent-encoded in the document; in this value they never are.
    package var isURLEncoded: Bool
    package var entries: [Entry]
    package var commonPrefixes: [ObjectKey]
    package var paging: Paging
    /// The id of the owner of all entries, where it is told.
    package var owner: String?

    package init(
        bucket: String,
        prefix: ObjectKey,
        delimiter: ObjectKey?,
        maxKeys: Int,
        isTruncated: Bool,
        isURLEncoded: Bool,
        entries: [Entry],
        commonPrefixes: [ObjectKey],
        paging: Paging
    ) {
        self.bucket = bucket
        self.prefix = prefix
        self.delimiter = delimiter
        self.maxKeys = maxKeys
        self.isTruncated = isTruncated
        self.isURLEncoded = isURLEncoded
        self.entries = entries
        self.commonPrefixes = commonPrefixes
        self.paging = paging
    }

    /// What to ask for next, nil at the end: the token of version 2, or the marker of version 1, percent-encoded: a key may be
    /// no text.
    ///
    /// Version 1 gives a marker only with a delimiter; without one it is the last key.
    package var next: String? {
        guard isTruncated else { return nil }
        switch paging {
        case .v2(_, let token, _): return token == "" ? nil : token
        case .v1(_, let marker):
            let last = [entries.last?.key, commonPrefixes.last].compactMap { $0 }.max()
            return (marker ?? last).map { PercentEncoding.encode($0.bytes, keepSlash: true) }
        }
    }

    /// Reads a document of either version: version 2 is recognised by its KeyCount or tokens.
    package init(_ root: XMLElement) throws(XMLProblem) {
        try root.expect("ListBucketResult")
        let isEncoded = root["EncodingType"] == "url"
        isURLEncoded = isEncoded
        bucket = root["Name"] ?? ""
        prefix = try root.key("Prefix", isEncoded: isEncoded) ?? .root
        delimiter = try root.key("Delimiter", isEncoded: isEncoded)
        maxKeys = Int(try root.number("MaxKeys") ?? 1000)
        isTruncated = root.boolean("IsTruncated")
        entries = []
        commonPrefixes = []
        for child in root.children {
            if child.name == "Contents" {
                entries.append(try Self.entry(child, isEncoded))
            } else if child.name == "CommonPrefixes" {
                if let key = try child.key("Prefix", isEncoded: isEncoded) { commonPrefixes.append(key) }
            }
        }
        if root["KeyCount"] != nil || root["NextContinuationToken"] != nil || root["ContinuationToken"] != nil {
            paging = .v2(
                continuationToken: root["ContinuationToken"],
                nextContinuationToken: root["NextContinuationToken"],
                startAfter: try root.key("StartAfter", isEncoded: isEncoded)
            )
        } else {
            paging = .v1(
                marker: try root.key("Marker", isEncoded: isEncoded),
                nextMarker: try root.key("NextMarker", isEncoded: isEncoded)
            )
        }
    }

    private static func entry(_ element: XMLElement, _ isEncoded: Bool) throws(XMLProblem) -> Entry {
        guard let key = try element.key("Key", isEncoded: isEncoded) else {
            throw XMLProblem("<Contents> without <Key>")
        }
        return Entry(
            key: key,
            size: try element.requiredNumber("Size"),
            entityTag: element["ETag"],
            lastModified: element.time("LastModified"),
            metadata: element.first("UserMetadata").flatMap { ListedMetadata.read($0) }
        )
    }

    /// What the next continuation token of a document is as it looks, without reading the document; nil: not seen.
    package static func likelyContinuation(_ document: [UInt8]) -> String? {
        guard let start = end(of: continuationTag, in: document) else { return nil }
        let text = document[start...].prefix { $0 != UInt8(ascii: "<") }
        // What has entities is left to the reader.
        guard !text.isEmpty, text.count <= 4096, !text.contains(UInt8(ascii: "&")) else { return nil }
        return String(validating: text, as: UTF8.self)
    }

    private static let continuationTag = Array("<NextContinuationToken>".utf8)

    /// The index behind the first occurrence of a tag.
    private static func end(of tag: [UInt8], in document: [UInt8]) -> Int? {
        document.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else { return nil }
            var start = 0
            while bytes.count - start >= tag.count {
                guard let found = memchr(base + start, Int32(tag[0]), bytes.count - start) else { return nil }
                start = UnsafeRawPointer(found) - base
                if bytes.count - start >= tag.count, memcmp(found, tag, tag.count) == 0 { return start + tag.count }
                start += 1
            }
            return nil
        }
    }

    package var xml: [UInt8] {
        var writer = XMLWriter()
        writer.element("ListBucketResult", isNamespaced: true) { writer in
            writer.text("Name", bucket)
            writer.key("Prefix", prefix, isEncoded: isURLEncoded)
            if let delimiter { writer.key("Delimiter", delimiter, isEncoded: isURLEncoded) }
            writer.number("MaxKeys", Int64(maxKeys))
            if isURLEncoded { writer.text("EncodingType", "url") }
            writer.boolean("IsTruncated", isTruncated)
            write(paging, to: &writer)
            for entry in entries { write(entry, to: &writer) }
            for prefix in commonPrefixes {
                writer.element("CommonPrefixes") { $0.key("Prefix", prefix, isEncoded: isURLEncoded) }
            }
        }
        return writer.bytes
    }

    private func write(_ paging: Paging, to writer: inout XMLWriter) {
        switch paging {
        case .v1(let marker, let nextMarker):
            writer.key("Marker", marker ?? .root, isEncoded: isURLEncoded)
            if let nextMarker { writer.key("NextMarker", nextMarker, isEncoded: isURLEncoded) }
        case .v2(let token, let next, let startAfter):
            writer.number("KeyCount", Int64(entries.count + commonPrefixes.count))
            if let token { writer.text("ContinuationToken", token) }
            if let next { writer.text("NextContinuationToken", next) }
            if let startAfter { writer.key("StartAfter", startAfter, isEncoded: isURLEncoded) }
        }
    }

    private func write(_ entry: Entry, to writer: inout XMLWriter) {
        writer.element("Contents") { writer in
            writer.key("Key", entry.key, isEncoded: isURLEncoded)
            if let time = entry.lastModified { writer.text("LastModified", time.rfc3339) }
            if let tag = entry.entityTag { writer.text("ETag", tag) }
            writer.number("Size", entry.size)
            writer.text("StorageClass", "STANDARD")
            if let metadata = entry.metadata { ListedMetadata.write(metadata, to: &writer) }
            if let owner {
                writer.element("Owner") { writer in
                    writer.text("ID", owner)
                    writer.text("DisplayName", owner)
                }
            }
        }
    }
}
