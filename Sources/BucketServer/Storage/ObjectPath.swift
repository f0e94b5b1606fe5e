// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base

/// A bucket and a key in it that a folder on disk can hold.
struct ObjectPath: Hashable, Sendable {
    let bucket: ObjectKey
    let key: ObjectKey
    /// The names on the way, the last one that of the object; without the empty one behind a folder's slash.
    let segments: [ObjectKey]

    /// Whether the key ends in a slash: a folder marker.
    var isFolder: Bool { key.bytes.last == UInt8(ascii: "/") }
    /// The last name.
    var name: ObjectKey { segments[segments.count - 1] }
    /// The folders above the last name, from the bucket down.
    var parents: ArraySlice<ObjectKey> { segments.dropLast() }

    /// Checks a key: UTF-8 of at most 1024 bytes whose every name a folder can hold and that cannot leave it.
    init(bucket: ObjectKey, key: ObjectKey) throws(StorageError) {
        try Self.check(bucket: bucket)
        segments = try Self.segments(of: key)
        self.bucket = bucket
        self.key = key
    }

    /// Whether there can be an object, or a folder, of that key.
    static func canHold(_ key: ObjectKey) -> Bool { (try? segments(of: key)) != nil }

    private static func segments(of key: ObjectKey) throws(StorageError) -> [ObjectKey] {
        guard !key.isRoot, key.validated != nil else { throw .invalidKey("the key is empty or not UTF-8") }
        guard key.bytes.count <= 1024 else { throw .keyTooLong }
        guard !key.bytes.contains(0) else { throw .invalidKey("the key contains a zero byte") }
        var names = key.bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        if names.last?.isEmpty == true { names.removeLast() }
        for name in names {
            guard !name.isEmpty else { throw .invalidKey("empty names between slashes cannot be stored in folders") }
            guard name.count <= 255 else { throw .keyTooLong }
            guard name != [0x2E], name != [0x2E, 0x2E] else {
                throw .invalidKey("the names `.` and `..` cannot be stored in folders")
            }
        }
        return names.map { ObjectKey(bytes: Array($0)) }
    }

    /// Whether a folder of that name may be shown as a bucket.
    static func check(bucket: ObjectKey) throws(StorageError) {
        let bytes = bucket.bytes
        let isSafe = bucket.validated != nil && !bytes.contains(0) && !bytes.contains(UInt8(ascii: "/"))
        guard isSafe, (1...255).contains(bytes.count), bytes.first != UInt8(ascii: ".") else {
            throw .invalidBucketName
        }
    }

    /// Whether a new bucket may have this name: 3 to 63 lower-case letters, digits, dots and hyphens, a letter or
    /// digit at both ends of each label, and no address of IPv4.
    static func isValidForNewBucket(_ bucket: ObjectKey) -> Bool {
        let bytes = bucket.bytes
        let labels = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let isAddress = labels.count == 4 && labels.allSatisfy { $0.allSatisfy(isDigit) }
        return (3...63).contains(bytes.count) && labels.allSatisfy(isLabel) && !isAddress
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    /// Whether bytes are letters, digits and inner hyphens.
    private static func isLabel(_ bytes: ArraySlice<UInt8>) -> Bool {
        func isAlphanumeric(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte) || isDigit(byte) }
        guard let first = bytes.first, let last = bytes.last, isAlphanumeric(first), isAlphanumeric(last) else {
            return false
        }
        return bytes.allSatisfy { isAlphanumeric($0) || $0 == UInt8(ascii: "-") }
    }
}
