// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database

/// How values lie in columns.
enum Encoding {
    /// Ranges as pairs of numbers, each as a gap behind the last range and a length, in LEB128.
    static func encode(_ extents: ExtentSet) -> [UInt8] {
        var bytes: [UInt8] = []
        var position: Int64 = 0
        for range in extents.ranges {
            append(UInt64(range.lower - position), to: &bytes)
            append(UInt64(range.count), to: &bytes)
            position = range.upper
        }
        return bytes
    }

    /// The ranges of a column; a damaged one throws `.corrupt`.
    static func extents(_ bytes: [UInt8]) throws(DatabaseError) -> ExtentSet {
        var result = ExtentSet()
        var position: Int64 = 0
        var index = 0
        while index < bytes.count {
            guard let gap = number(bytes, &index), let count = number(bytes, &index), count > 0,
                case let (lower, overflow) = position.addingReportingOverflow(gap), !overflow,
                case let (upper, carry) = lower.addingReportingOverflow(count), !carry
            else { throw DatabaseError(.corrupt, "journal: extents of a generation are damaged") }
            result.insert(ByteRange(lower, upper))
            position = upper
        }
        return result
    }

    /// A tag as text: S or W for strong or weak, then the opaque part, which may hold anything.
    static func tag(_ tag: EntityTag?) -> Value {
        guard let tag else { return .null }
        return .text((tag.isWeak ? "W" : "S") + tag.opaque)
    }

    static func tag(_ text: String?) -> EntityTag? {
        guard let text, let first = text.utf8.first else { return nil }
        return EntityTag(opaque: String(text.dropFirst()), isWeak: first == UInt8(ascii: "W"))
    }

    /// The three columns of a version: tag, size, modification time.
    static func columns(_ version: ObjectVersion?) -> [Value] {
        guard let version else { return [.null, .null, .null] }
        return [tag(version.entityTag), .integer(version.size), .time(version.lastModified)]
    }

    static func version(_ row: Row, _ column: Int32) -> ObjectVersion {
        ObjectVersion(
            entityTag: tag(row.optionalText(column)),
            size: row.integer(column + 1),
            lastModified: row.optionalTime(column + 2)
        )
    }

    /// The four columns of a base: its kind and the version.
    static func columns(_ base: RemoteBase) -> [Value] {
        switch base {
        case .absent: [0] + columns(nil as ObjectVersion?)
        case .version(let version): [1] + columns(version)
        case .unknown: [2] + columns(nil as ObjectVersion?)
        }
    }

    static func base(_ row: Row, _ column: Int32) -> RemoteBase {
        switch row.integer(column) {
        case 0: .absent
        case 1: .version(version(row, column + 1))
        default: .unknown
        }
    }

    private static func append(_ value: UInt64, to bytes: inout [UInt8]) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(rest & 0x7F) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    private static func number(_ bytes: [UInt8], _ index: inout Int) -> Int64? {
        var result: UInt64 = 0
        var shift: UInt64 = 0
        while index < bytes.count, shift < 63 {
            let byte = bytes[index]
            index += 1
            result |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return Int64(exactly: result) }
            shift += 7
        }
        return nil
    }
}
