// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc

/// A name or slash-separated path in a bucket, compared byte by byte.
///
/// Swift's `String` compares by canonical equivalence, so two different object
/// names in different Unicode normal forms would be one key of a dictionary;
/// names on the wire, on disk and in the kernel are bytes.
package struct ObjectKey: Hashable, Sendable, Comparable, CustomStringConvertible {
    package var bytes: [UInt8]

    package init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    package init(_ string: String) {
        bytes = Array(string.utf8)
    }

    package init(_ raw: UnsafeRawBufferPointer) {
        bytes = Array(raw)
    }

    /// The empty key: the root of a volume.
    package static let root = ObjectKey(bytes: [])

    package var isRoot: Bool { bytes.isEmpty }

    /// The key as text; bytes that are not UTF-8 become U+FFFD, so it is for people and for valid keys only.
    package var string: String { String(decoding: bytes, as: UTF8.self) }

    /// The key as text, nil when it is not valid UTF-8.
    package var validated: String? { String(validating: bytes, as: UTF8.self) }

    package var description: String { string }

    /// The part before the last slash, the root when there is none.
    package var parent: ObjectKey {
        guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return .root }
        return ObjectKey(bytes: Array(bytes[..<slash]))
    }

    /// The part behind the last slash.
    package var name: ObjectKey {
        guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return self }
        return ObjectKey(bytes: Array(bytes[(slash + 1)...]))
    }

    /// This key as a folder, with `name` in it.
    package func appending(_ name: ObjectKey) -> ObjectKey {
        isRoot ? name : ObjectKey(bytes: bytes + [UInt8(ascii: "/")] + name.bytes)
    }

    /// Whether this key is `folder` or lies below it.
    package func isInside(_ folder: ObjectKey) -> Bool {
        guard !folder.isRoot else { return true }
        guard bytes.count > folder.bytes.count else { return self == folder }
        return bytes[folder.bytes.count] == UInt8(ascii: "/") && bytes.starts(with: folder.bytes)
    }

    /// The key with its prefix `old` replaced by `new`; nil unless it is inside `old`.
    package func moved(from old: ObjectKey, to new: ObjectKey) -> ObjectKey? {
        guard isInside(old) else { return nil }
        if self == old { return new }
        let rest = old.isRoot ? bytes[...] : bytes[(old.bytes.count + 1)...]
        return new.appending(ObjectKey(bytes: Array(rest)))
    }

    package static func < (left: ObjectKey, right: ObjectKey) -> Bool {
        let order = order(left, right)
        return order == 0 ? left.bytes.count < right.bytes.count : order < 0
    }

    // An array compares and hashes element by element; a folder may have a million names.

    package static func == (left: ObjectKey, right: ObjectKey) -> Bool {
        left.bytes.count == right.bytes.count && order(left, right) == 0
    }

    package func hash(into hasher: inout Hasher) {
        // The length first: with what is hashed beside it, no two keys may run into each other.
        hasher.combine(bytes.count)
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
    }

    /// How the common length of two keys compares, as memcmp(3) says it.
    private static func order(_ left: ObjectKey, _ right: ObjectKey) -> Int32 {
        left.bytes.withUnsafeBufferPointer { left in
            right.bytes.withUnsafeBufferPointer { right in
                let count = min(left.count, right.count)
                guard count > 0, let left = left.baseAddress, let right = right.baseAddress else { return 0 }
                return memcmp(left, right, count)
            }
        }
    }
}
