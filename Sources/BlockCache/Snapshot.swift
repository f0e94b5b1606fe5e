// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import CXXHash
internal import Glibc
internal import Platform
internal import Synchronization

/// A complete cache file as it was at one moment, without a name: what was compared with its checksum once stays right.
///
/// Nobody can open it, cut it or write to it, whatever happens to the file it was made of, and so even the kernel may read
/// it without us. It ends where the object ends, and shares the file's space on the disk (ioctl_ficlone(2)).
final class Snapshot: Sendable {
    private let file: FileDescriptor
    private let geometry: BlockGeometry
    private let checksums: [UInt64]
    /// Those that were not compared yet count as missing.
    private let blocks: Lock<BlockTable>
    /// Every block had its checksum.
    private let isVerified = Atomic<Bool>(false)
    /// A block had not: the file was damaged before.
    private let isDamaged = Atomic<Bool>(false)

    /// Makes one of a file whose blocks have these checksums, in a folder of the same file system.
    ///
    /// Throws `EOPNOTSUPP` where files cannot share space.
    convenience init(of source: borrowing CacheFile, checksums: [UInt64], in folder: String) throws(SystemError) {
        let descriptor = try FileDescriptor.open(folder, O_RDWR | moorage_O_TMPFILE)
        guard moorage_ficlone(descriptor.raw, source.descriptor.raw) == 0 else {
            throw SystemError.last("ioctl_ficlone", folder)
        }
        try descriptor.truncate(to: source.geometry.size)
        let file = try FileDescriptor.open("/proc/self/fd/\(descriptor.raw)", O_RDONLY)
        self.init(file, source.geometry, checksums)
    }

    /// Takes a file that nobody changes, with exactly the object's bytes if it is not damaged.
    init(_ file: consuming FileDescriptor, _ geometry: BlockGeometry, _ checksums: [UInt64]) {
        self.file = file
        self.geometry = geometry
        self.checksums = checksums
        blocks = Lock(BlockTable([BlockTable.Block](repeating: .missing, count: geometry.count)))
    }

    /// Whether the file system of a folder can make snapshots.
    static func isPossible(in folder: String) -> Bool {
        guard let source = try? FileDescriptor.open(folder, O_RDWR | moorage_O_TMPFILE),
            let target = try? FileDescriptor.open(folder, O_RDWR | moorage_O_TMPFILE),
            (try? source.write([UInt8](repeating: 1, count: 4096))) != nil
        else { return false }
        return moorage_ficlone(target.raw, source.raw) == 0
    }

    /// Answers with the bytes of `range`; false when they cannot be had here, now or later.
    func read(_ range: ByteRange, _ buffers: BlockBuffers, _ body: (CachedBytes) -> Void) -> Bool {
        guard !isDamaged.load(ordering: .relaxed) else { return false }
        let isKnown = isVerified.load(ordering: .acquiring) || isVerified(geometry.blocks(in: range))
        let whole = isKnown ? range : geometry.aligned(range)
        return buffers.withBuffer(Int(whole.count)) { buffer in
            guard let count = try? file.read(into: buffer, at: whole.lower), count == buffer.count,
                isKnown || verify(whole, UnsafeRawBufferPointer(buffer))
            else {
                isDamaged.store(true, ordering: .relaxed)
                return false
            }
            let lower = Int(range.lower - whole.lower)
            body(.whole(UnsafeRawBufferPointer(rebasing: buffer[lower..<lower + Int(range.count)])))
            return true
        }
    }

    /// The file, open for reading, once all of it was found right; of a small one all is looked at now.
    ///
    /// Belongs to the snapshot.
    func descriptor(_ buffers: BlockBuffers) -> Int32? {
        if !isVerified.load(ordering: .acquiring), geometry.size <= CachedObject.wholeObjectLimit {
            _ = read(ByteRange(0, geometry.size), buffers) { _ in }
        }
        return isVerified.load(ordering: .acquiring) && !isDamaged.load(ordering: .relaxed) ? file.raw : nil
    }

    private func isVerified(_ blocks: Range<Int>) -> Bool {
        self.blocks.withLock { table in blocks.allSatisfy { table[$0] == .verified } }
    }

    private func verify(_ range: ByteRange, _ bytes: UnsafeRawBufferPointer) -> Bool {
        let found = geometry.blocks(in: range)
        for block in found {
            let part = geometry.range(of: block)
            let start = bytes.baseAddress.map { $0 + Int(part.lower - range.lower) }
            guard moorage_XXH3_64bits(start, Int(part.count)) == checksums[block] else { return false }
        }
        let isWhole = blocks.withLock { table in
            for block in found { table[block] = .verified }
            return table.missingCount == 0
        }
        if isWhole { isVerified.store(true, ordering: .releasing) }
        return true
    }
}
