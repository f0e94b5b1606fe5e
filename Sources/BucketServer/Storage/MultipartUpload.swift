// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import HTTPWire
internal import Platform

/// What was said when a multipart upload was created; kept in its folder until it ends.
struct MultipartUpload: Hashable, Sendable {
    let id: String
    let bucket: ObjectKey
    let key: ObjectKey
    let initiated: Timestamp
    /// The fields that the object will have.
    var fields = HTTPFields()
    /// The checksum that the parts carry, by the name in the fields, and whether the object's is a composite.
    var checksumAlgorithm: String?
    var isComposite = true

    private static let header = "moorage upload 1"

    /// Whether a text can be the identifier of an upload, and so be the name of a folder.
    static func isValid(id: String) -> Bool {
        id.utf8.count == 32 && id.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    }

    var encoded: [UInt8] {
        var lines = [
            Self.header, "bucket \(Hexadecimal.encode(bucket.bytes))", "key \(Hexadecimal.encode(key.bytes))",
            "initiated \(initiated.nanoseconds)",
        ]
        if let checksumAlgorithm { lines.append("checksum \(checksumAlgorithm) \(isComposite ? "composite" : "full")") }
        for field in fields.fields { lines.append("field \(field.name) \(field.value)") }
        return Array(lines.joined(separator: "\n").utf8)
    }

    init(id: String, bucket: ObjectKey, key: ObjectKey, initiated: Timestamp) {
        self.id = id
        self.bucket = bucket
        self.key = key
        self.initiated = initiated
    }

    /// Reads a manifest; nil when it is damaged.
    init?(id: String, encoded bytes: [UInt8]) {
        let lines = bytes.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
        func value(_ name: String) -> Substring? {
            lines.first { $0.hasPrefix(name + " ") }?.dropFirst(name.utf8.count + 1)
        }
        guard lines.first == Self.header,
            let bucket = value("bucket").flatMap({ Hexadecimal.decode(String($0)) }),
            let key = value("key").flatMap({ Hexadecimal.decode(String($0)) }),
            let initiated = value("initiated").flatMap({ Int64($0) })
        else { return nil }
        self.init(
            id: id,
            bucket: ObjectKey(bytes: bucket),
            key: ObjectKey(bytes: key),
            initiated: Timestamp(nanoseconds: initiated)
        )
        if let words = value("checksum")?.split(separator: " "), words.count == 2 {
            checksumAlgorithm = String(words[0])
            isComposite = words[1] == "composite"
        }
        for line in lines where line.hasPrefix("field ") {
            // By bytes: a space and a combining character behind it are one `Character`.
            let parts = line.utf8.split(separator: 0x20, maxSplits: 2, omittingEmptySubsequences: false)
            if parts.count == 3 { fields.append(String(Substring(parts[1])), String(Substring(parts[2]))) }
        }
    }
}

/// A part that has been received wholly.
struct StoredPart: Sendable {
    let number: Int
    let record: ObjectRecord
    let size: Int64
    let location: Location

    enum Location: Sendable {
        /// A file of its own, by name.
        case file(ObjectKey)
        /// A stretch of the upload's shared file.
        case slot(offset: Int64)
    }
}
