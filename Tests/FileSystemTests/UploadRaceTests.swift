// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Catalog
import Glibc
import Journal
import ObjectStore
import Platform
import TestSupport
import Testing

@testable import FileSystem

/// A file that is changed and read while each state of it is uploaded by another process, as fast as both can.
@Suite struct UploadRaceTests {
    @Test(arguments: 0..<4) func noOperationFailsBecauseAnUploadEnds(number: Int) throws {
        let seed = UInt64.random(in: 0 ... .max)
        let volume = try Volume(metadataAge: 100)
        let uploads = Uploads()
        try uploads.start(volume, seed: seed)
        defer { uploads.stop() }
        var file = ChangedFile(volume, seed: seed)
        for step in 0..<1_500 {
            do {
                try file.act()
            } catch {
                Issue.record("seed \(seed), step \(step), \(file.last): \(error)")
                return
            }
        }
        uploads.stop()
        #expect(uploads.state.inspect { $0.failures } == [], "seed \(seed)")
        #expect(uploads.state.inspect { $0.count } > 5)
    }

    /// A row over the version that an upload made goes when what it wants is what is there again.
    @Test(arguments: [false, true]) func aFileWhoseRowCameAndWentIsStillTheOneThatWasUploaded(isSeen: Bool) throws {
        let volume = try Volume(metadataAge: 100)
        let handle = try volume.create("a")
        try volume.write(handle, [1, 2, 3], at: 0)
        try volume.files.flush(handle)
        let number = try volume.number("a")
        try volume.upload(try #require(try volume.journal.node(at: ObjectKey("a"))), [1, 2, 3])
        // It is found out by a look at the name, or by the change itself.
        if isSeen { _ = try volume.number("a") }
        let permissions = try volume.status("a").attributes.permissions
        for each in [UInt32(0o600), permissions] {
            var changes = AttributeChanges()
            changes.permissions = each
            _ = try volume.files.setAttributes(number, changes, size: nil)
        }
        #expect(try volume.journal.node(at: ObjectKey("a")) == nil)
        try volume.write(handle, [9], at: 1)
        #expect(try volume.read(handle, ByteRange(0, 3)) == [1, 9, 3])
        try volume.close(handle)
        #expect(try volume.content("a") == [1, 9, 3])
    }

    /// Who looks at a name has read what there was before somebody began to write, and takes that in only now.
    @Test(arguments: [false, true]) func aLookFromBeforeAWriteDoesNotTouchWhatIsWritten(isOfRow: Bool) throws {
        let volume = try Volume(metadataAge: 100)
        volume.store.set("a", [1, 2, 3], mode: 0o100_600)
        let path = ObjectKey("a")
        let number = try volume.number("a")
        let permissions = AttributeChanges(permissions: 0o640)
        if isOfRow { _ = try volume.files.setAttributes(number, permissions, size: nil) }
        let row = try volume.journal.node(at: path)
        if let row { try volume.sendAttributes(row) }
        _ = try volume.number("a")
        let entry = try #require(try volume.catalog.entry(path))
        let handle = try volume.open("a", write: true)
        let attributes = handle.inode.state.withLock { $0.attributes }
        _ = try volume.files.write(handle, ByteRange(1, 2)) { descriptor in
            // It is open for changes, and shows what it showed.
            #expect(row.map { handle.inode.follows($0) } ?? handle.inode.follows(entry, attributes, path))
            return [UInt8(9)].withUnsafeBytes { pwrite(descriptor, $0.baseAddress, 1, 1) }
        }
        try volume.close(handle)
        let written = try #require(try volume.journal.node(at: path))
        #expect(!written.isOpen && written.generation?.content.extents == ExtentSet(ByteRange(1, 2)))
        #expect(try volume.content("a") == [1, 9, 3])
    }
}

extension UploadRaceTests {
    /// The same of attributes: what the file did not know any more was left out of the next change of them.
    @Test func aLookFromBeforeAChangeOfAttributesDoesNotUndoIt() throws {
        let volume = try Volume(metadataAge: 100)
        volume.store.set("a", [1, 2, 3], mode: 0o100_600)
        let number = try volume.number("a")
        let entry = try #require(try volume.catalog.entry(ObjectKey("a")))
        let handle = try volume.open("a", write: false)
        let attributes = handle.inode.state.withLock { $0.attributes }
        for name in ["user.x", "user.y"] {
            try volume.files.setExtendedAttribute(number, ObjectKey(name), [1])
            #expect(handle.inode.follows(entry, attributes, ObjectKey("a")))
        }
        #expect(try volume.number("a") == number)
        let names = try volume.files.extendedAttributes(number, caller: Caller(uid: 0, gid: 0, umask: 0))
        #expect(Set(names) == [ObjectKey("user.x"), ObjectKey("user.y")])
        try volume.close(handle)
    }

    /// The same of a listing, of which a part was looked at before.
    @Test(arguments: [false, true]) func aListingFromBeforeAChangeOfAttributesDoesNotUndoIt(isSent: Bool) throws {
        let volume = try Volume(metadataAge: 100)
        for name in ["a", "b"] { volume.store.set(name, [1, 2, 3], mode: 0o100_600) }
        let number = try volume.number("b")
        let handle = try volume.files.openDirectory(Volume.root)
        var listed: [UInt32] = []
        var failure: (any Error)?
        try volume.files.readDirectory(handle, from: 0, withStatus: true) { entry in
            if entry.name == ObjectKey("b"), let status = entry.status { listed.append(status.attributes.permissions) }
            guard entry.name == ObjectKey("a") else { return true }
            do {
                _ = try volume.files.setAttributes(number, AttributeChanges(permissions: 0o640), size: nil)
                if isSent { try volume.sendAttributes(#require(try volume.journal.node(at: ObjectKey("b")))) }
            } catch {
                failure = error
            }
            return true
        }
        if let failure { throw failure }
        #expect(listed == [0o640])
        #expect(try volume.files.status(number).attributes.permissions == 0o640)
    }

    /// What was opened for changes is complete once it is closed, also where nothing was changed, and others replaced the rest.
    @Test func whatIsLookedAtAnewStaysOpenForChanges() throws {
        let volume = try Volume(metadataAge: 100)
        volume.store.set("a", [1, 2, 3], mode: 0o100_600)
        let handle = try volume.open("a", write: true)
        try volume.files.change(handle, ByteRange(0, 3), .allocate(keepingSize: true))
        #expect(try volume.files.reload(handle.inode))
        #expect(handle.inode.state.withLock { $0.isWritable })
        try volume.close(handle)
        #expect(try volume.journal.node(at: ObjectKey("a")) == nil)
    }
}

extension Volume {
    /// Ends a row that wants other attributes only, as a copy of the object onto itself does: its version stays.
    fileprivate func sendAttributes(_ row: JournalNode) throws {
        try journal.synchronizeSealed()
        let transfer = try #require(try journal.beginTransfer(of: row, method: .copy))
        let version = try #require(store.version(of: row.path.string))
        store.setMode(of: row.path.string, row.attributes.mode)
        try catalog.committed(
            row.path,
            version: version,
            metadata: ObjectMetadata(mode: row.attributes.mode, uid: 5, gid: 6, modified: row.attributes.modified),
            generation: row.generation?.id.value,
            at: .now()
        )
        _ = try journal.completeTransfer(transfer.id, version: version)
    }
}

/// The uploads of a volume, by a journal of their own on the same files.
private final class Uploads: Sendable {
    struct State {
        var count = 0
        var failures: [String] = []
        var isStopping = false
        var isRunning = false
    }

    let state = Monitor(State())

    func start(_ volume: Volume, seed: UInt64) throws {
        let journal = try Journal(directory: volume.folder + "/state")
        nonisolated(unsafe) let volume = volume
        state.update { $0.isRunning = true }
        try Thread.detached(name: "flusher") { [self] in
            var random = SeededGenerator(seed: seed &+ 1)
            while !state.inspect({ $0.isStopping }) {
                do {
                    try journal.synchronizeSealed()
                    for node in try journal.pendingNodes(limit: 4) { try upload(node, volume, journal, &random) }
                } catch {
                    state.update { $0.failures.append("\(error)") }
                }
            }
            state.update { $0.isRunning = false }
        }
    }

    func stop() {
        state.update { $0.isStopping = true }
        _ = state.wait { $0.isRunning ? nil : true }
    }

    private func upload(
        _ node: JournalNode,
        _ volume: Volume,
        _ journal: Journal,
        _ random: inout SeededGenerator
    ) throws {
        guard !node.isOpen, let generation = node.generation, generation.isSealed else { return }
        guard let transfer = try journal.beginTransfer(of: node, method: .put) else { return }
        usleep(UInt32.random(in: 0..<2_000, using: &random))
        let content = try bytes(of: generation, volume, journal)
        try journal.markCommitting(transfer.id, expectedTag: nil)
        let version = volume.store.set(node.path.string, content, mode: node.attributes.mode)
        let metadata = ObjectMetadata(
            mode: node.attributes.mode,
            uid: node.attributes.uid,
            gid: node.attributes.gid,
            modified: node.attributes.modified
        )
        let number = generation.id.value
        try volume.catalog.committed(node.path, version: version, metadata: metadata, generation: number, at: .now())
        usleep(UInt32.random(in: 0..<300, using: &random))
        _ = try journal.completeTransfer(transfer.id, version: version)
        for released in try journal.releaseGenerations() { try journal.removeStaging(released.id) }
        state.update { $0.count += 1 }
    }

    private func bytes(of generation: Generation, _ volume: Volume, _ journal: Journal) throws -> [UInt8] {
        var content = [UInt8](repeating: 0, count: Int(generation.size))
        for segment in try journal.segments(of: generation, in: ByteRange(0, generation.size)) {
            let place = Int(segment.range.lower)..<Int(segment.range.upper)
            switch segment.source {
            case .zeros: break
            case .staging(let id):
                let file = try journal.openStaging(id, creating: false)
                let count = try content.withUnsafeMutableBytes { buffer in
                    try file.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[place]), at: segment.range.lower)
                }
                #expect(count == place.count)
            case .remote(let key, let version):
                let object = try #require(volume.store.state.inspect { $0.objects[key] })
                #expect(volume.store.version(of: key.string) == version)
                content[place] = object.content[place]
            }
        }
        return content
    }
}

/// One file of a volume that is changed at random, and what it has to be.
private struct ChangedFile {
    private let volume: Volume
    private let seed: UInt64
    private var random: SeededGenerator
    private var content: [UInt8] = []
    private var handles: [FileHandle] = []
    private(set) var last = ""

    init(_ volume: Volume, seed: UInt64) {
        self.volume = volume
        self.seed = seed
        random = SeededGenerator(seed: seed)
    }

    mutating func act() throws {
        switch Int.random(in: 0..<12, using: &random) {
        case 0, 1: try open()
        case 2, 3: try close()
        case 4, 5: try write()
        case 6: try cut()
        case 7:
            last = "chmod"
            guard !content.isEmpty else { return }
            var changes = AttributeChanges()
            changes.permissions = 0o600 + UInt32.random(in: 0..<64, using: &random)
            _ = try volume.files.setAttributes(volume.number("a"), changes, size: nil)
        case 8:
            last = "sync"
            if let handle = handles.randomElement(using: &random) { try volume.files.synchronize(handle) }
        case 9:
            last = "wait"
            usleep(UInt32.random(in: 0..<4_000, using: &random))
        default: try read()
        }
    }

    private mutating func open() throws {
        last = "open"
        guard handles.count < 3 else { return }
        do {
            handles.append(try volume.open("a", write: true))
        } catch FileError.noEntry {
            handles.append(try volume.create("a"))
        }
    }

    private mutating func close() throws {
        last = "close"
        guard !handles.isEmpty else { return }
        try volume.close(handles.remove(at: Int.random(in: handles.indices, using: &random)))
    }

    private mutating func write() throws {
        guard let handle = handles.randomElement(using: &random) else { return try open() }
        let offset = Int.random(in: 0..<200_000, using: &random)
        let bytes = [UInt8](repeating: UInt8.random(in: 1...255, using: &random), count: 1 + offset % 50_000)
        last = "write \(bytes.count) at \(offset)"
        try volume.write(handle, bytes, at: Int64(offset))
        let end = offset + bytes.count
        if content.count < end { content += [UInt8](repeating: 0, count: end - content.count) }
        content.replaceSubrange(offset..<end, with: bytes)
    }

    private mutating func cut() throws {
        guard !content.isEmpty else { return }
        // To the length that it has, too: what was opened for a change and not changed goes back to what it was.
        let size = Bool.random(using: &random) ? content.count : Int.random(in: 0..<250_000, using: &random)
        last = "cut to \(size)"
        _ = try volume.files.setAttributes(volume.number("a"), AttributeChanges(), size: Int64(size))
        content = Array(content.prefix(size)) + [UInt8](repeating: 0, count: max(0, size - content.count))
    }

    private mutating func read() throws {
        guard let handle = handles.randomElement(using: &random), !content.isEmpty else { return }
        let lower = Int.random(in: 0..<content.count, using: &random)
        let range = ByteRange(Int64(lower), Int64(min(content.count, lower + 30_000)))
        last = "read \(range)"
        let found = try volume.read(handle, range)
        #expect(found == Array(content[Int(range.lower)..<Int(range.upper)]), "seed \(seed), \(last)")
    }
}
