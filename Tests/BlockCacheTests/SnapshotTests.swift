// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import CXXHash
import Glibc
import Platform
import Testing

@testable import BlockCache

/// Reading from a complete file that nobody can change.
@Suite struct SnapshotTests {
    private let folder: TemporaryFolder
    private let buffers = BlockBuffers()

    init() throws {
        folder = try TemporaryFolder()
    }

    /// A snapshot of so many bytes in blocks of 32 KiB, and where it lies.
    private func snapshot(_ size: Int64) throws -> (Snapshot, String) {
        let bytes = expectedBytes(ByteRange(0, size))
        let path = folder.path + "/file"
        try FileDescriptor.open(path, O_RDWR | O_CREAT | O_TRUNC).write(bytes)
        let geometry = BlockGeometry(size: size, preferredBlockSize: 32 << 10)
        let checksums = (0..<geometry.count).map { block -> UInt64 in
            let range = geometry.range(of: block)
            return bytes[Int(range.lower)..<Int(range.upper)].withUnsafeBytes {
                moorage_XXH3_64bits($0.baseAddress, $0.count)
            }
        }
        return (Snapshot(try FileDescriptor.open(path, O_RDONLY), geometry, checksums), path)
    }

    private func read(_ snapshot: Snapshot, _ range: ByteRange) -> [UInt8]? {
        var found: [UInt8]?
        return snapshot.read(range, buffers) { found = $0.array } ? found : nil
    }

    private func change(_ path: String, at offset: Int64) throws {
        let file = try FileDescriptor.open(path, O_RDWR)
        try [UInt8](repeating: 0xEE, count: 10).withUnsafeBytes { bytes in try file.write(bytes, at: offset) }
    }

    @Test func isHandedOutWhenAllOfItWasRight() throws {
        let size: Int64 = (3 << 20) + 77
        let (snapshot, _) = try snapshot(size)
        #expect(snapshot.descriptor(buffers) == nil)
        for lower in stride(from: Int64(0), to: size - 40_000, by: 1 << 20) {
            let range = ByteRange(lower, min(size - 40_000, lower + 1 << 20))
            #expect(read(snapshot, range) == expectedBytes(range))
        }
        #expect(snapshot.descriptor(buffers) == nil)
        let rest = ByteRange(size - 40_000, size)
        #expect(read(snapshot, rest) == expectedBytes(rest))
        #expect(snapshot.descriptor(buffers) != nil)
        #expect(read(snapshot, ByteRange(5, size)) == expectedBytes(ByteRange(5, size)))
    }

    @Test func aSmallOneIsLookedAtAtOnce() throws {
        #expect(try snapshot(100_000).0.descriptor(buffers) != nil)
        let (damaged, path) = try snapshot(100_000)
        try change(path, at: 99_000)
        #expect(damaged.descriptor(buffers) == nil)
    }

    @Test func oneWrongBlockMakesAllOfItUseless() throws {
        let (snapshot, path) = try snapshot(2 << 20)
        try change(path, at: 70_000)
        #expect(read(snapshot, ByteRange(0, 50_000)) == expectedBytes(ByteRange(0, 50_000)))
        #expect(read(snapshot, ByteRange(60_000, 80_000)) == nil)
        #expect(read(snapshot, ByteRange(0, 50_000)) == nil)
        #expect(snapshot.descriptor(buffers) == nil)
    }

    @Test func oneThatWasCutIsUseless() throws {
        let (snapshot, path) = try snapshot(2 << 20)
        try FileDescriptor.open(path, O_RDWR).truncate(to: 1 << 20)
        #expect(read(snapshot, ByteRange((1 << 20) - 10, (1 << 20) + 10)) == nil)
    }
}
