// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import Platform

/// What tells that a file is still the one a record was written for.
struct FileStamp: Hashable, Sendable {
    let size: Int64
    let modified: Int64
    let inode: UInt64

    init(size: Int64, modified: Int64, inode: UInt64) {
        self.size = size
        self.modified = modified
        self.inode = inode
    }

    init(_ status: FileStatus) {
        self.init(size: status.size, modified: status.modified.nanoseconds, inode: status.inode)
    }
}

/// A checksum that S3 keeps with an object.
struct StoredChecksum: Hashable, Sendable {
    /// The algorithm as the field names write it: crc32, crc32c, crc64nvme, sha1, sha256.
    var algorithm: String
    /// The value in base64, with `-N` behind a composite of N parts.
    var value: String
    /// Whether it is a checksum of the parts' checksums.
    var isComposite: Bool

    /// What S3 calls it.
    var type: String { isComposite ? "COMPOSITE" : "FULL_OBJECT" }
}

/// What the server knows of an object besides its bytes; kept beside them as text.
struct ObjectRecord: Hashable, Sendable {
    /// The opaque part of the entity tag.
    var entityTag: String
    var modified: Timestamp
    /// The file it belongs to; nil for folder markers.
    var stamp: FileStamp?
    /// Content-Type and the like, and the x-amz-meta fields.
    var fields = HTTPFields()
    var checksum: StoredChecksum?
    /// The multipart upload that made it.
    var uploadID: String?

    private static let header = "moorage 1"

    /// The record as lines of text; field values have no line ends, the HTTP parser sees to that.
    var encoded: [UInt8] {
        var lines = [Self.header, "etag \(entityTag)", "modified \(modified.nanoseconds)"]
        if let stamp { lines.append("stamp \(stamp.size) \(stamp.modified) \(stamp.inode)") }
        if let checksum {
            let type = checksum.isComposite ? "composite" : "full"
            lines.append("checksum \(checksum.algorithm) \(type) \(checksum.value)")
        }
        if let uploadID { lines.append("upload \(uploadID)") }
        for field in fields.fields { lines.append("field \(field.name) \(field.value)") }
        return Array(lines.joined(separator: "\n").utf8)
    }

    init(entityTag: String, modified: Timestamp, stamp: FileStamp?) {
        self.entityTag = entityTag
        self.modified = modified
        self.stamp = stamp
    }

    /// Reads a record; nil when it is damaged or of another version.
    init?(encoded bytes: [UInt8]) {
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }
        guard lines.first == Self.header else { return nil }
        self.init(entityTag: "", modified: Timestamp(nanoseconds: 0), stamp: nil)
        for line in lines.dropFirst() {
            guard apply(line.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false), line) else {
                return nil
            }
        }
        if entityTag.isEmpty { return nil }
    }

    /// Takes one line; false when it is damaged.
    ///
    /// Unknown lines are of a newer version and are passed over.
    private mutating func apply(_ words: [Substring], _ line: String) -> Bool {
        switch (words[0], words.count) {
        case ("etag", 2):
            entityTag = String(words[1])
        case ("modified", 2):
            guard let value = Int64(words[1]) else { return false }
            modified = Timestamp(nanoseconds: value)
        case ("stamp", 4):
            guard let size = Int64(words[1]), let time = Int64(words[2]), let inode = UInt64(words[3]) else {
                return false
            }
            stamp = FileStamp(size: size, modified: time, inode: inode)
        case ("checksum", 4):
            checksum = StoredChecksum(
                algorithm: String(words[1]),
                value: String(words[3]),
                isComposite: words[2] == "composite"
            )
        case ("upload", 2):
            uploadID = String(words[1])
        case ("field", 2...):
            // By bytes: a space and a combining character behind it are one `Character`.
            let parts = line.utf8.split(separator: 0x20, maxSplits: 2, omittingEmptySubsequences: false)
            fields.append(String(Substring(parts[1])), parts.count > 2 ? String(Substring(parts[2])) : "")
        default:
            break
        }
        return true
    }

    /// The tag with its quotes.
    var quotedTag: String { EntityTag(opaque: entityTag).fieldValue }
    var tag: EntityTag { EntityTag(opaque: entityTag) }
}
