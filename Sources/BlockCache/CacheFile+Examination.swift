// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
internal import Platform

/// Reading a cache file without knowing whose it is.
extension CacheFile {
    /// What the header says.
    package struct Identity: Hashable, Sendable {
        package var key: ObjectKey
        /// The name that a file of this object version has.
        var name: String
    }

    /// The longest index and header together, in bytes.
    private static let longestTrailer = BlockGeometry.maximumCount * Int64(slotSize) + 65_536

    /// Opens the file at `path` and tells what it holds; nil when it is no cache file.
    package static func examine(_ path: String) throws(SystemError) -> ExaminedCacheFile? {
        let descriptor = try openForChecking(path)
        let length = try descriptor.status().size
        // The trailer begins at a multiple of 4 KiB and says how long the object before it is.
        var offset = length / 4096 * 4096
        var found: Header?
        while offset >= 0, length - offset <= longestTrailer {
            found = try header(of: descriptor, at: offset)
            if found != nil { break }
            offset -= 4096
        }
        guard let found else { return nil }
        let geometry = BlockGeometry(size: found.size, preferredBlockSize: found.blockSize)
        let file = CacheFile(descriptor, geometry, firstSlot: offset + found.length)
        return ExaminedCacheFile(identity: found.identity, file: file)
    }

    private static func openForChecking(_ path: String) throws(SystemError) -> FileDescriptor {
        do throws(SystemError) {
            return try FileDescriptor.open(path, O_RDWR | O_NOFOLLOW)
        } catch {
            guard [EROFS, EACCES, EPERM].contains(error.code) else { throw error }
            return try FileDescriptor.open(path, O_RDONLY | O_NOFOLLOW)
        }
    }

    private struct Header {
        var identity: Identity
        var size: Int64
        var blockSize: Int64
        /// With the padding, in bytes.
        var length: Int64
    }

    private static func header(of file: borrowing FileDescriptor, at offset: Int64) throws(SystemError) -> Header? {
        let fixed = magic.count + 40
        var bytes = [UInt8](repeating: 0, count: fixed)
        guard try read(file, into: &bytes, at: offset) == fixed, bytes.starts(with: magic) else { return nil }
        let numbers = (0..<5).map { Int64(bitPattern: integer(bytes, at: magic.count + $0 * 8)) }
        let (size, blockSize, keyLength, tagLength) = (numbers[0], numbers[1], numbers[3], numbers[4])
        guard size >= 0, size <= offset, trailerOffset(size: size) == offset,
            BlockGeometry.isPossible(blockSize, size: size),
            (0...16_384).contains(keyLength), (0...16_384).contains(tagLength),
            BlockGeometry(size: size, preferredBlockSize: blockSize).blockSize == blockSize
        else { return nil }
        var text = [UInt8](repeating: 0, count: Int(keyLength + tagLength))
        guard try read(file, into: &text, at: offset + Int64(fixed)) == text.count else { return nil }
        let key = ObjectKey(bytes: Array(text.prefix(Int(keyLength))))
        let tag = String(decoding: text.dropFirst(Int(keyLength)), as: UTF8.self)
        let validator = tag.isEmpty ? "\(numbers[2])" : tag
        let identity = Identity(key: key, name: BlockCache.name(key, validator: validator, size: size))
        let length = Int64(fixed) + keyLength + tagLength
        return Header(identity: identity, size: size, blockSize: blockSize, length: (length + 15) / 16 * 16)
    }
}

/// A cache file, and whose it is.
package struct ExaminedCacheFile: ~Copyable, Sendable {
    package let identity: CacheFile.Identity
    package let file: CacheFile
}
