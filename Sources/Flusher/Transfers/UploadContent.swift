// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Digests
package import Journal
internal import ObjectStore
package import Platform

/// The immutable bytes of one upload in a local file.
package final class UploadContent: Sendable {
    private let file: FileDescriptor?
    private let raw: Int32?
    package let size: Int64
    /// What the bytes have to be; nil where nobody knows.
    private let check: ContentCheck?

    /// `file` holds at least `size` bytes; nil only for empty content.
    package init(_ file: consuming FileDescriptor?, size: Int64, check: ContentCheck? = nil) {
        raw = Self.number(of: file)
        self.file = file
        self.size = size
        self.check = check
    }

    /// Where the first bytes are that were read and not sent, as they are not what was written; nil when there are none.
    var damagedAt: Int64? { check?.damagedAt }

    /// Bytes that are in memory, such as a link's text, put into a file without a name.
    package convenience init(_ bytes: [UInt8]) throws(SystemError) {
        guard !bytes.isEmpty else {
            self.init(nil, size: 0)
            return
        }
        let file = try FileDescriptor.inMemory("moorage")
        try file.write(bytes)
        self.init(file, size: Int64(bytes.count))
    }

    private static func number(of file: borrowing FileDescriptor?) -> Int32? {
        switch file {
        case .some(let file): file.raw
        case .none: nil
        }
    }

    func body(_ range: ByteRange) -> UploadBody {
        guard let raw, !range.isEmpty else { return .empty }
        return UploadBody(descriptor: raw, range: range, check: check)
    }

    var whole: UploadBody { body(ByteRange(0, size)) }

    /// The MD5 of a range; EIO when the file is shorter than it must be, or not what was written.
    func md5(_ range: ByteRange) throws(SystemError) -> [UInt8] {
        let digest = Digest(.md5)
        guard let raw else { return digest.finalize() }
        let reader = CheckedReader(raw, check)
        let chunk = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(min(range.count, 1 << 20)), alignment: 4096)
        defer { chunk.deallocate() }
        var offset = range.lower
        while offset < range.upper {
            let piece = UnsafeMutableRawBufferPointer(rebasing: chunk.prefix(Int(range.upper - offset)))
            try reader.read(into: piece, at: offset)
            digest.update(UnsafeRawBufferPointer(piece))
            offset += Int64(piece.count)
        }
        return digest.finalize()
    }

    /// The opaque entity tag of the content where it is stored in one request: its MD5 in hexadecimal.
    func entityTag() throws(SystemError) -> String {
        Hexadecimal.encode(try md5(ByteRange(0, size)))
    }
}

extension ObjectVersion {
    /// The tag where it has the form of a digest of the whole content, in lower case.
    var tagOfContent: String? { entityTag.flatMap { $0.isDigestOfWhole ? $0.opaque.lowercased() : nil } }
}

extension ObjectStatus {
    /// Whether the object's tag is one of its content, which a copy of it has too.
    var isTagOfContent: Bool { !isEncrypted && version.tagOfContent != nil }
}

extension EntityTag {
    /// Whether it has the form of an MD5 of the whole content, not of one of parts.
    var isDigestOfWhole: Bool {
        opaque.utf8.count == 32
            && opaque.utf8.allSatisfy { ($0 >= 0x30 && $0 <= 0x39) || ($0 | 0x20 >= 0x61 && $0 | 0x20 <= 0x66) }
    }
}
