// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A checksum of content in a document: an element such as `ChecksumCRC32`, and for objects `ChecksumType`.
package struct DocumentChecksum: Hashable, Sendable {
    /// The algorithm as documents write it, such as `CRC64NVME`.
    package var algorithm: String
    /// In base64; that of a checksum over the parts' checksums has their number behind it, such as `-3`.
    package var value: String
    /// `FULL_OBJECT` or `COMPOSITE`; nil for a part.
    package var type: String?

    private static let prefix = "Checksum"

    package init(algorithm: String, value: String, type: String? = nil) {
        self.algorithm = algorithm
        self.value = value
        self.type = type
    }

    /// Reads it from the element that has it among others; nil when there is none.
    package init?(_ element: XMLElement) {
        let known: Set<String> = ["ChecksumAlgorithm", "ChecksumType"]
        guard let child = element.children.first(where: { $0.name.hasPrefix(Self.prefix) && !known.contains($0.name) })
        else { return nil }
        algorithm = String(child.name.dropFirst(Self.prefix.utf8.count))
        value = child.text
        type = element["ChecksumType"]
    }

    package func write(to writer: inout XMLWriter) {
        writer.text(Self.prefix + algorithm, value)
        if let type { writer.text("ChecksumType", type) }
    }
}
