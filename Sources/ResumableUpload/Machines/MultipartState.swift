// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What the journal keeps of an S3 multipart upload.
package struct MultipartState: Hashable, Sendable {
    /// A part the remote acknowledged.
    package struct Part: Hashable, Sendable {
        /// 1 to 10,000.
        package var number: Int
        /// Bytes.
        package var size: Int64
        /// The 16 bytes of its MD5; none where the server copied it and told no MD5.
        package var md5: [UInt8]
        /// As the server gave it.
        package var entityTag: String

        package init(number: Int, size: Int64, md5: [UInt8], entityTag: String) {
            self.number = number
            self.size = size
            self.md5 = md5
            self.entityTag = entityTag
        }
    }

    package var uploadID: String
    /// Bytes of every part but the last; 0 with a composition.
    package var partSize: Int64
    /// The parts of an upload that are partly copied by the server; nil where all but the last have one size.
    package var composition: PartComposition?
    package var parts: [Part]

    package init(uploadID: String, partSize: Int64, composition: PartComposition? = nil, parts: [Part] = []) {
        self.uploadID = uploadID
        self.partSize = partSize
        self.composition = composition
        self.parts = parts
    }
}

/// How content is cut into parts: all of one size but the last, which some servers require, or as a composition says.
package struct PartLayout: Hashable, Sendable {
    package static let minimumPartSize: Int64 = 8 << 20
    private static let unit: Int64 = 1 << 20
    /// Parts aimed at: below the 10,000 that S3 allows.
    private static let countGoal: Int64 = 9000

    package let size: Int64
    package let partSize: Int64
    private let composition: PartComposition?

    /// Lays out `size` bytes in parts of `partSize`; traps when that makes more than 10,000 parts.
    package init(size: Int64, partSize: Int64) {
        precondition(size >= 0 && partSize > 0, "\(size) bytes in parts of \(partSize)")
        self.size = size
        self.partSize = partSize
        composition = nil
        precondition(count <= 10_000, "\(count) parts")
    }

    /// The parts of a composition.
    package init(_ composition: PartComposition) {
        size = composition.size
        partSize = 0
        self.composition = composition
    }

    /// The part size for content of `size` bytes: `wanted`, or what 9,000 parts need, in whole MiB.
    package static func partSize(for size: Int64, wanted: Int64? = nil) -> Int64 {
        let needed = (size + countGoal - 1) / countGoal
        let rounded = (needed + unit - 1) / unit * unit
        guard let wanted, wanted > 0 else { return max(minimumPartSize, rounded) }
        return needed <= wanted ? wanted : rounded
    }

    /// The number of parts, at least 1.
    package var count: Int { composition?.pieces.count ?? Int(max(1, (size + partSize - 1) / partSize)) }

    /// The bytes of part `number`, from 1.
    package func range(_ number: Int) -> ByteRange {
        if let composition { return composition.pieces[number - 1].range }
        let start = Int64(number - 1) * partSize
        return ByteRange(start, min(size, start + partSize))
    }

    /// Whether the server copies part `number` from what it has.
    package func isCopied(_ number: Int) -> Bool { composition?.pieces[number - 1].isCopied ?? false }
}
