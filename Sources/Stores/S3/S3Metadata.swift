// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import ObjectStore

/// File attributes as user metadata, in the form that s3fs and rclone share.
enum S3Metadata {
    private static let prefix = "x-amz-meta-"
    /// The system-defined metadata that users set (Amazon S3 User Guide, *Working with object metadata*), but for the type.
    private static let representation: Set<String> = [
        "cache-control", "content-disposition", "content-encoding", "content-language", "expires",
    ]

    /// The fields that store `metadata` with an object.
    static func fields(_ metadata: ObjectMetadata) -> HTTPFields {
        var fields = HTTPFields()
        if let type = metadata.contentType { fields.append("Content-Type", type) }
        for (name, value) in metadata.representation.sorted(by: { $0.key < $1.key }) { fields.append(name, value) }
        if let mode = metadata.mode { fields.append(prefix + "mode", String(mode)) }
        if let uid = metadata.uid { fields.append(prefix + "uid", String(uid)) }
        if let gid = metadata.gid { fields.append(prefix + "gid", String(gid)) }
        if let time = metadata.modified { fields.append(prefix + "mtime", format(time)) }
        if let device = metadata.device { fields.append(prefix + "rdev", String(device)) }
        if !metadata.extended.isEmpty { fields.append(prefix + "xattr", metadata.extended.text) }
        for (name, value) in metadata.other.sorted(by: { $0.key < $1.key }) {
            fields.append(prefix + name, value)
        }
        return fields
    }

    /// The metadata in an answer's fields.
    static func read(_ fields: HTTPFields) -> ObjectMetadata {
        var metadata = ObjectMetadata(contentType: fields["content-type"])
        var mode: String?
        for field in fields.fields {
            let name = field.name.lowercased()
            let value = trimmingOptionalWhitespace(field.value)
            if representation.contains(name) { metadata.representation[name] = value }
            guard name.hasPrefix(prefix) else { continue }
            switch name.dropFirst(prefix.utf8.count) {
            case "mode": mode = value
            case "uid": metadata.uid = UInt32(value)
            case "gid": metadata.gid = UInt32(value)
            case "mtime": metadata.modified = time(value)
            case "rdev": metadata.device = UInt32(value)
            case "xattr": metadata.extended = ExtendedAttributes(text: value) ?? .none
            case let other: metadata.other[String(other)] = value
            }
        }
        metadata.mode = mode.flatMap { Self.mode($0, isSpecial: metadata.device != nil) }
        return metadata
    }

    /// Seconds since 1970 with as many decimals as there are.
    static func format(_ time: Timestamp) -> String {
        let magnitude = time.nanoseconds.magnitude
        let sign = time.nanoseconds < 0 ? "-" : ""
        let fraction = magnitude % 1_000_000_000
        guard fraction != 0 else { return "\(sign)\(magnitude / 1_000_000_000)" }
        var digits = padded(Int(fraction), 9)
        while digits.hasSuffix("0") { digits.removeLast() }
        return "\(sign)\(magnitude / 1_000_000_000).\(digits)"
    }

    /// Reads seconds with or without decimals; digits behind the ninth are dropped.
    static func time(_ text: String) -> Timestamp? {
        let isNegative = text.hasPrefix("-")
        let parts = text.dropFirst(isNegative ? 1 : 0).split(separator: ".", omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count), let seconds = decimalNumber(parts[0]) else { return nil }
        var nanoseconds: Int64 = 0
        if parts.count == 2 {
            let digits = parts[1].prefix(9)
            guard let value = decimalNumber(digits) else { return nil }
            nanoseconds = (digits.utf8.count..<9).reduce(value) { value, _ in value * 10 }
        }
        return isNegative
            ? Timestamp(seconds: -seconds, nanoseconds: -nanoseconds)
            : Timestamp(seconds: seconds, nanoseconds: nanoseconds)
    }

    /// Reads a mode: decimal as s3fs writes it, or octal as rclone does.
    ///
    /// The two spellings of ordinary files and folders never collide; folders with special bits in octal look
    /// like decimal links of odd permissions, so a decimal link must have the usual 0777. Special files in decimal
    /// look like octal ones, or like bare permissions, where bits above 0777 are set: then only what else marks them
    /// (`isSpecial`) tells. Bare permissions without a type are taken as octal, as people write them.
    static func mode(_ text: String, isSpecial: Bool = false) -> UInt32? {
        if let value = UInt32(text), isMode(value), value & 0o170_000 != 0, isSpecial || !looksOctal(value) {
            return value
        }
        if let value = UInt32(text, radix: 8), isMode(value) { return value }
        return UInt32(text).flatMap { isMode($0) ? $0 : nil }
    }

    /// Whether a mode, read as decimal, is more likely to have been written in octal, where that makes sense too.
    private static func looksOctal(_ value: UInt32) -> Bool {
        switch value & 0o170_000 {
        case 0o040_000, 0o100_000: false
        case 0o120_000: value != 0o120_777
        default: value & 0o7000 != 0
        }
    }

    /// Whether the bits above the permissions are one of the kinds of files (inode(7)), or none.
    private static func isMode(_ value: UInt32) -> Bool {
        let kinds: Set<UInt32> = [0, 0o010_000, 0o020_000, 0o040_000, 0o060_000, 0o100_000, 0o120_000, 0o140_000]
        return value <= 0o177_777 && kinds.contains(value & 0o170_000)
    }
}
