// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Catalog
import Configuration
import Control
import Database
import Flusher
import Glibc
import Journal
import ObjectStore
import Platform
import Synchronization
import TestSupport
import Testing

/// What the files should hold, changed together with the journal.
private struct FileModel {
    let fixture: FlusherFixture
    let catalog: Catalog
    var files: [ObjectKey: [UInt8]] = [:]
    var random: SeededGenerator
    static let names = ["a", "b", "c", "d/x", "d/y", "e"].map { ObjectKey($0) }

    init(_ fixture: FlusherFixture, seed: UInt64) throws {
        self.fixture = fixture
        random = SeededGenerator(seed: seed)
        catalog = try Catalog(directory: fixture.directories.places(of: fixture.description).cache)
    }

    /// What a mount believes the remote has.
    private func remote(_ path: ObjectKey) throws(JournalError) -> RemoteState {
        guard let entry = try catalog.entry(path) else { return .absent }
        guard entry.kind == .file, let version = entry.version else { return .absent }
        var attributes = FlusherFixture.attributes
        attributes.mode = entry.metadata?.mode ?? attributes.mode
        return .file(version, attributes)
    }

    mutating func step() throws {
        let path = Self.names.randomElement(using: &random) ?? Self.names[0]
        switch Int.random(in: 0..<10, using: &random) {
        case 0...3: try rewrite(path)
        case 4, 5: try change(path)
        case 6: try remove(path)
        case 7, 8: try rename(path, to: Self.names.randomElement(using: &random) ?? Self.names[1])
        default: try setMode(path)
        }
    }

    private mutating func bytes(_ count: Int) -> [UInt8] {
        var word = random.next()
        return (0..<count).map { index in
            if index % 8 == 0 { word = random.next() }
            return UInt8(truncatingIfNeeded: word >> UInt64(index % 8 * 8))
        }
    }

    /// Truncates and writes, as `cp` onto an existing file does.
    private mutating func rewrite(_ path: ObjectKey) throws {
        let content = bytes(Int.random(in: 0...60_000, using: &random))
        var node: JournalNode
        if files[path] == nil {
            node = try fixture.journal.createFile(at: path, attributes: FlusherFixture.attributes, remote: remote(path))
        } else {
            node = try fixture.journal.beginWriting(at: path, remote: remote(path))
        }
        try write(&node, truncatingTo: 0, content, at: 0)
        files[path] = content
    }

    /// Writes somewhere into an existing file, or cuts it.
    private mutating func change(_ path: ObjectKey) throws {
        guard var content = files[path] else { return }
        var node = try fixture.journal.beginWriting(at: path, remote: remote(path))
        if Bool.random(using: &random) {
            let size = Int.random(in: 0...70_000, using: &random)
            content =
                size < content.count
                ? Array(content[..<size]) : content + Array(repeating: 0, count: size - content.count)
            try write(&node, truncatingTo: Int64(size), [], at: 0)
        } else {
            let offset = Int.random(in: 0...content.count, using: &random)
            let piece = bytes(Int.random(in: 1...5000, using: &random))
            if offset + piece.count > content.count {
                content += Array(repeating: 0, count: offset + piece.count - content.count)
            }
            content.replaceSubrange(offset..<(offset + piece.count), with: piece)
            try write(&node, truncatingTo: nil, piece, at: offset)
        }
        files[path] = content
    }

    private func write(_ node: inout JournalNode, truncatingTo size: Int64?, _ bytes: [UInt8], at offset: Int) throws {
        let generation = try #require(node.generation)
        var content = generation.content
        let file = try fixture.journal.openStaging(generation.id, creating: true)
        if let size {
            content.truncate(to: size)
            try file.truncate(to: min(size, try file.status().size))
        }
        if !bytes.isEmpty {
            try bytes.withUnsafeBytes { try file.write($0, at: Int64(offset)) }
            content.write(ByteRange(offset: Int64(offset), count: Int64(bytes.count)))
        }
        let isSealed = try fixture.journal.seal(node.id, generation.id, content: content, modified: .now())
        #expect(isSealed)
        try fixture.journal.synchronizeSealed()
    }

    private mutating func remove(_ path: ObjectKey) throws {
        guard files.removeValue(forKey: path) != nil else { return }
        try fixture.journal.remove(at: path, remote: remote(path))
    }

    private mutating func rename(_ path: ObjectKey, to target: ObjectKey) throws {
        guard path != target, let content = files.removeValue(forKey: path) else { return }
        files[target] = content
        try fixture.journal.rename(
            from: path,
            to: target,
            sourceRemote: remote(path),
            targetRemote: remote(target)
        )
    }

    private mutating func setMode(_ path: ObjectKey) throws {
        guard files[path] != nil else { return }
        let mode: UInt32 = Bool.random(using: &random) ? 0o600 : 0o644
        try fixture.journal.setAttributes(at: path, remote: remote(path), AttributeChanges(permissions: mode))
    }
}

@Suite(.serialized) struct FlusherModelTests {
    /// Whatever is done to names and contents while uploads run, fail and stop, the remote ends as the last state.
    ///
    /// With every second seed requests take so long that most rows change while one for them is under way.
    @Test(arguments: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] as [UInt64])
    func theRemoteEndsAsTheLastState(seed: UInt64) throws {
        let store = FakeStore(seed: seed)
        store.state.withLock {
            $0.faults = seed % 3 == 0 ? 0 : 40
            $0.lateness = 0.3
            $0.speaksResumable = true
        }
        if seed % 2 == 0 {
            let delays = Mutex(SeededGenerator(seed: seed &* 17))
            store.hook.withLock {
                $0.call = { _, _ in usleep(delays.withLock { UInt32.random(in: 0..<20_000, using: &$0) }) }
            }
        }
        let protocols = ["put", "s3-multipart", "ietf-resumable"]
        let fixture = try FlusherFixture(store: store, uploadProtocol: protocols[Int(seed) % 3], partSize: 10_000)
        defer { fixture.remove() }
        var model = try FileModel(fixture, seed: seed)
        var random = SeededGenerator(seed: seed &* 31)
        var client = try fixture.start()
        for _ in 0..<150 {
            try model.step()
            if Int.random(in: 0..<3, using: &random) == 0 {
                _ = try client.call(.wake(volume: nil))
                usleep(UInt32.random(in: 0..<20_000, using: &random))
            }
            if Int.random(in: 0..<50, using: &random) == 0 {
                try fixture.stop(client)
                client = try fixture.start()
            }
        }
        store.state.withLock { $0.faults = 0 }
        var left = try fixture.flush(client)
        for _ in 0..<20 where try !left.isEmpty || !fixture.pending().isEmpty {
            left = try fixture.flush(client, timeout: 10)
        }
        #expect(left.isEmpty, "seed \(seed): \(left)")
        let remote = store.objects
        for name in FileModel.names {
            let isSame = remote[name]?.bytes == model.files[name]
            #expect(
                isSame,
                "seed \(seed): \(name): \(remote[name]?.bytes.count ?? -1), \(model.files[name]?.count ?? -1)"
            )
        }
        #expect(Set(remote.keys).subtracting(FileModel.names).isEmpty, "seed \(seed): \(remote.keys)")
        for _ in 0..<50 where store.leftovers > 0 { usleep(100_000) }
        try fixture.stop(client)
        #expect(store.leftovers == 0, "seed \(seed)")
        #expect(try fixture.journal.conflicts().isEmpty, "seed \(seed)")
        let staging = try Files.names(in: fixture.journal.directory + "/staging")
        #expect(staging.isEmpty, "seed \(seed): \(staging)")
    }
}
