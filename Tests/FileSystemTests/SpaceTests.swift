// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import FileSystem
import Glibc
import Journal
import ObjectStore
import Platform
import TestSupport
import Testing

/// fallocate(2) and lseek(2) on files of any state.
@Suite struct SpaceTests {
    private static let block: Int64 = 4096

    /// What a file should hold, byte by byte.
    private struct Model {
        var bytes: [UInt8]

        mutating func grow(to size: Int64) {
            if size > bytes.count { bytes += [UInt8](repeating: 0, count: Int(size) - bytes.count) }
        }

        mutating func zero(_ range: ByteRange) {
            guard let part = range.intersection(ByteRange(0, Int64(bytes.count))) else { return }
            for place in part.lower..<part.upper { bytes[Int(place)] = 0 }
        }

        mutating func apply(_ change: SpaceChange, _ range: ByteRange) {
            switch change {
            case .allocate(let keepingSize): if !keepingSize { grow(to: range.upper) }
            case .punchHole: zero(range)
            case .zero(let keepingSize):
                if !keepingSize { grow(to: range.upper) }
                zero(range)
            }
        }
    }

    private static let changes: [SpaceChange] = [
        .allocate(keepingSize: false), .allocate(keepingSize: true), .punchHole, .zero(keepingSize: false),
        .zero(keepingSize: true),
    ]

    private func content(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 % 251 + 1) } }

    /// All that a handle shows, by reads and by lseek(2).
    private func expect(_ volume: Volume, _ handle: FileHandle, _ model: Model, _ note: String) throws {
        let size = Int64(model.bytes.count)
        #expect(try volume.read(handle, ByteRange(0, max(1, size))) == model.bytes, "\(note)")
        for target in SeekTarget.allCases {
            for offset in stride(from: Int64(0), to: size, by: 1777) {
                expect(model, target, offset, try? volume.files.seek(handle, to: target, from: offset), note)
            }
            #expect(throws: FileError.self) { try volume.files.seek(handle, to: target, from: size) }
        }
    }

    private func expect(_ model: Model, _ target: SeekTarget, _ from: Int64, _ found: Int64?, _ note: String) {
        let size = Int64(model.bytes.count)
        switch target {
        case .data:
            let end = Int(found ?? size)
            #expect(end >= from && !model.bytes[Int(from)..<end].contains { $0 != 0 }, "\(note): data at \(from)")
        case .hole:
            guard let found, found >= from, found <= size else {
                Issue.record("\(note): no hole behind \(from), not even the end")
                return
            }
            if found < size { #expect(model.bytes[Int(found)] == 0, "\(note): hole at \(from)") }
        }
    }

    @Test(arguments: ["new", "remote", "sealed", "patched", "removed"])
    func everyChangeOfSpaceShowsInEveryState(_ state: String) throws {
        for change in Self.changes {
            for range in [(0, 1), (5000, 9000), (0, 4096), (19_999, 20_000), (15_000, 40_000), (30_000, 50_000)] {
                let volume = try Volume()
                var model = Model(bytes: content(20_000))
                let note = "\(state) \(change) \(range)"
                if state == "new" { try volume.close(volume.create("a")) }
                if state == "new" { try volume.put("a", model.bytes) } else { volume.store.set("a", model.bytes) }
                let handle = try volume.open("a", write: true)
                if state == "sealed" || state == "patched" {
                    try volume.write(handle, [1, 2, 3], at: 6000)
                    model.bytes.replaceSubrange(6000..<6003, with: [1, 2, 3])
                }
                if state == "sealed" { try volume.files.flush(handle) }
                if state == "removed" { try volume.unlink("a") }
                let bytes = ByteRange(Int64(range.0), Int64(range.1))
                try volume.files.change(handle, bytes, change)
                model.apply(change, bytes)
                try expect(volume, handle, model, note)
                try volume.close(handle)
                if state == "removed" { continue }
                try volume.mountAgain()
                #expect(try volume.content("a") == model.bytes, "\(note) after a remount")
            }
        }
    }

    @Test func zerosOverARemoteFileAreNotFetched() throws {
        for change in [SpaceChange.punchHole, .zero(keepingSize: true)] {
            let volume = try Volume()
            volume.store.set("a", content(100_000))
            let handle = try volume.open("a", write: true)
            try volume.files.change(handle, ByteRange(0, 100_000), change)
            #expect(try volume.read(handle, ByteRange(0, 100_000)) == [UInt8](repeating: 0, count: 100_000))
            try volume.close(handle)
            #expect(try volume.content("a") == [UInt8](repeating: 0, count: 100_000))
            #expect(volume.store.state.inspect { $0.fetched } == 0)
        }
    }

    @Test func aPunchedHoleGivesItsSpaceBackAndZerosKeepIt() throws {
        let volume = try Volume()
        let handle = try volume.create("a")
        try volume.write(handle, content(1 << 20), at: 0)
        let before = try blocks(volume)
        try volume.files.change(handle, ByteRange(0, 1 << 19), .punchHole)
        let after = try blocks(volume)
        #expect(before - after >= 900, "\(before) blocks, then \(after)")
        try volume.files.change(handle, ByteRange(0, 1 << 19), .zero(keepingSize: true))
        #expect(try blocks(volume) - after >= 900)
        try volume.files.change(handle, ByteRange(1 << 20, 2 << 20), .allocate(keepingSize: true))
        #expect(try blocks(volume) - before >= 1800)
        #expect(try volume.status("a").size == 1 << 20)
    }

    @Test func whatIsPunchedWhileTheOlderContentIsSentIsNotPartOfThat() throws {
        let volume = try Volume()
        try volume.put("a", content(50_000))
        let handle = try volume.open("a", write: true)
        var model = Model(bytes: content(50_000))
        try volume.upload(try #require(try volume.journal.node(at: ObjectKey("a"))), content(50_000)) {
            try volume.files.change(handle, ByteRange(10_000, 30_000), .punchHole)
            model.apply(.punchHole, ByteRange(10_000, 30_000))
            try expect(volume, handle, model, "while it is sent")
        }
        try volume.files.change(handle, ByteRange(45_000, 60_000), .zero(keepingSize: false))
        model.apply(.zero(keepingSize: false), ByteRange(45_000, 60_000))
        try expect(volume, handle, model, "after that")
        try volume.close(handle)
        try volume.mountAgain()
        #expect(try volume.content("a") == model.bytes)
    }

    /// In units of 512 bytes.
    private func blocks(_ volume: Volume) throws -> Int {
        let staging = volume.folder + "/state/staging"
        return try Files.names(in: staging).reduce(0) { sum, name in
            var status = stat()
            return stat("\(staging)/\(name.string)", &status) == 0 ? sum + Int(status.st_blocks) : sum
        }
    }

    @Test func holesAreFoundWhereNobodyCanHaveAMapping() throws {
        let volume = try Volume()
        let handle = try volume.create("a")
        try volume.write(handle, content(4096), at: 0)
        try volume.write(handle, content(4096), at: 1 << 20)
        #expect(try volume.files.seek(handle, to: .hole, from: 0) == 1 << 20 + 4096, "it may be mapped")
        try volume.close(handle)
        let reader = try volume.open("a")
        #expect(try volume.files.seek(reader, to: .hole, from: 0) == 4096)
        #expect(try volume.files.seek(reader, to: .data, from: 4096) == 1 << 20)
        #expect(try volume.files.seek(reader, to: .hole, from: 1 << 20) == 1 << 20 + 4096)
        #expect(throws: FileError.self) { try volume.files.seek(reader, to: .data, from: 1 << 20 + 4096) }
    }

    @Test func whatCannotBeDoneToARangeIsRefused() throws {
        let volume = try Volume()
        try volume.put("a", [1])
        let reader = try volume.open("a")
        #expect(throws: FileError.badHandle) { try volume.files.change(reader, ByteRange(0, 1), .punchHole) }
        let writer = try volume.open("a", write: true)
        let far = ByteRange(5 << 40, 5 << 40 + 1)
        #expect(throws: FileError.tooLarge) { try volume.files.change(writer, far, .zero(keepingSize: false)) }
        try volume.files.change(writer, far, .punchHole)
        #expect(try volume.content("a") == [1])
    }

    @Test func randomChangesAgreeWithAModel() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for round in 0..<8 {
            let volume = try Volume()
            var model = Model(bytes: content(Int.random(in: 0..<100_000, using: &random)))
            volume.store.set("a", model.bytes)
            var handle = try volume.open("a", write: true)
            for step in 0..<40 {
                try change(volume, handle, &model, &random)
                let note = "seed \(seed) round \(round) step \(step)"
                guard step % 5 == 4 else { continue }
                try volume.close(handle)
                if step % 10 == 9 { try volume.mountAgain() }
                let reader = try volume.open("a")
                try expect(volume, reader, model, note)
                volume.files.release(reader)
                handle = try volume.open("a", write: true)
            }
        }
    }

    private func change(
        _ volume: Volume,
        _ handle: FileHandle,
        _ model: inout Model,
        _ random: inout SeededGenerator
    ) throws {
        let lower = Int64.random(in: 0..<120_000, using: &random)
        let range = ByteRange(offset: lower, count: Int64.random(in: 1...30_000, using: &random))
        switch Int.random(in: 0..<8, using: &random) {
        case 0, 1:
            let bytes = content(Int(range.count))
            try volume.write(handle, bytes, at: lower)
            model.grow(to: range.upper)
            model.bytes.replaceSubrange(Int(range.lower)..<Int(range.upper), with: bytes)
        case 2:
            _ = try volume.files.setAttributes(volume.number("a"), AttributeChanges(), size: lower)
            if lower < model.bytes.count { model.bytes.removeLast(model.bytes.count - Int(lower)) }
            model.grow(to: lower)
        default:
            let change = Self.changes.randomElement(using: &random) ?? .punchHole
            try volume.files.change(handle, range, change)
            model.apply(change, range)
        }
    }
}
