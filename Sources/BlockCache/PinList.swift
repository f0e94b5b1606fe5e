// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The paths of a volume that are to be kept whole in the cache: files, or folders with all that is and will be in them.
///
/// A pure value with a text form: one path a line with a leading slash; bytes that would not do are written as `%XX`.
package struct PinList: Hashable, Sendable {
    /// The pinned paths, sorted; the root means the whole volume.
    package private(set) var paths: [ObjectKey] = []

    /// The most pins a volume has.
    package static let maximumCount = 10_000

    package init() {}

    /// Reads the text form; lines that are none of it are left out.
    package init(parsing text: [UInt8]) {
        let lines = text.split(separator: UInt8(ascii: "\n")).prefix(Self.maximumCount)
        paths = Set(lines.compactMap(Self.path)).sorted()
    }

    package var text: [UInt8] { paths.flatMap { Self.line($0) + [UInt8(ascii: "\n")] } }

    /// Whether the path itself is pinned.
    package func contains(_ path: ObjectKey) -> Bool { paths.contains(path) }

    /// Whether the path, or a folder above it, is pinned.
    package func covers(_ path: ObjectKey) -> Bool { paths.contains { path.isInside($0) } }

    /// Returns false when there are too many.
    package mutating func insert(_ path: ObjectKey) -> Bool {
        if contains(path) { return true }
        guard paths.count < Self.maximumCount else { return false }
        paths = (paths + [path]).sorted()
        return true
    }

    /// Returns false when the path was not pinned.
    package mutating func remove(_ path: ObjectKey) -> Bool {
        guard let index = paths.firstIndex(of: path) else { return false }
        paths.remove(at: index)
        return true
    }

    private static func line(_ path: ObjectKey) -> [UInt8] {
        [UInt8(ascii: "/")]
            + path.bytes.flatMap { byte -> [UInt8] in
                guard byte < 0x20 || byte == 0x7F || byte == UInt8(ascii: "%") else { return [byte] }
                let digits = String(byte, radix: 16, uppercase: true)
                return Array("%\(byte < 16 ? "0" : "")\(digits)".utf8)
            }
    }

    private static func path(_ line: ArraySlice<UInt8>) -> ObjectKey? {
        guard line.first == UInt8(ascii: "/") else { return nil }
        var bytes: [UInt8] = []
        var rest = line.dropFirst()
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard rest.count >= 2, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else {
                return nil
            }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return ObjectKey(bytes: bytes)
    }
}

/// How far a pin has come.
package struct PinProgress: Hashable, Sendable {
    package var path: ObjectKey
    package var files = 0
    /// What its files are long, in bytes.
    package var bytesTotal: Int64 = 0
    /// What of that is in the cache.
    package var bytesPresent: Int64 = 0
    /// Why it is not all there, for people; nil while it is, or is being fetched.
    package var problem: String?

    package init(path: ObjectKey) {
        self.path = path
    }
}
