// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Journal
import ObjectStore
import Platform
import Testing

@testable import FileSystem

/// Reading folders that are too large for one answer, of the remote or to the kernel.
@Suite struct DirectoryTests {
    private func names(_ range: Range<Int>) -> [String] { range.map { "f\(padded($0, 5))" } }

    /// Up to `limit` names from an offset on, and where to go on.
    private func read(
        _ volume: Volume,
        _ handle: DirectoryHandle,
        from offset: Int,
        limit: Int = .max,
        withStatus: Bool = true
    ) throws -> (names: [String], next: Int, known: Int) {
        var (names, next, known) = ([String](), offset, 0)
        try volume.files.readDirectory(handle, from: offset, withStatus: withStatus) { entry in
            guard names.count < limit else { return false }
            names.append(entry.name.string)
            next = entry.next
            if let status = entry.status {
                known += 1
                volume.files.forget(status.number, count: 1)
            }
            return true
        }
        return (names, next, known)
    }

    /// All names, read in answers of at most `limit`.
    private func readAll(_ volume: Volume, _ handle: DirectoryHandle, from: Int = 0, limit: Int) throws -> [String] {
        var (found, offset) = ([String](), from)
        while true {
            let (names, next, _) = try read(volume, handle, from: offset, limit: limit)
            if names.isEmpty { return found }
            found += names
            offset = next
        }
    }

    @Test func namesFlowWhileTheFolderIsStillBeingListed() throws {
        let volume = try Volume(metadataAge: 100)
        for name in names(0..<50) { volume.store.set(name, [1], mode: 0o100_600) }
        try volume.put("local", [2])
        volume.store.state.update { $0.pageSize = 10 }
        // The put has listed the folder.
        try volume.mountAgain(metadataAge: 0.000_001)
        volume.store.givePages(2)
        let handle = try volume.files.openDirectory(Volume.root)
        let first = try read(volume, handle, from: 0)
        #expect(first.names.starts(with: [".", "..", "local"] + names(0..<10)))
        #expect(first.names.count <= 23)
        // What a page had can be looked at before the last one came.
        #expect(try volume.status("f00003").size == 1)
        volume.store.givePages(nil)
        let rest = try readAll(volume, handle, from: first.next, limit: 7)
        #expect(first.names + rest == [".", "..", "local"] + names(0..<50))
    }

    @Test func namesComeWithTheNumbersThatTheKernelKnows() throws {
        let volume = try Volume(metadataAge: 100)
        for name in ["known", "new"] { volume.store.set(name, [1], mode: 0o100_600) }
        let number = try volume.number("known")
        var told: [String: InodeNumber?] = [:]
        let handle = try volume.files.openDirectory(Volume.root)
        try volume.files.readDirectory(handle, from: 0, withStatus: false) { entry in
            told[entry.name.string] = entry.number
            return true
        }
        #expect(told["known"] == number)
        #expect(told["new"] == .some(nil))
    }

    @Test func theNextPageIsAskedForBeforeThisOneIsTaken() throws {
        let volume = try Volume(metadataAge: 100)
        for name in names(0..<50) { volume.store.set(name, [1]) }
        volume.store.state.update { $0.pageSize = 10 }
        let store = volume.store
        let pages = PagesAhead { continuation, _ throws(StoreError) in
            try store.list(.root, recursive: false, continuation: continuation)
        }
        _ = try pages.next()
        // Two wait, and no more are asked for.
        #expect(store.state.wait(timeout: 10) { $0.listings >= 3 ? true : nil } == true)
        #expect(store.state.wait(timeout: 0.1) { $0.listings > 3 ? true : nil } == nil)
        var count = 1
        while try pages.next() != nil { count += 1 }
        #expect(count == 5)
    }

    @Test func aListingThatIsGivenUpAsksForNothingMoreAndHoldsUpNobody() throws {
        let volume = try Volume(metadataAge: 100)
        for name in names(0..<80) { volume.store.set(name, [1]) }
        volume.store.state.update { $0.pageSize = 10 }
        let view = volume.files.view
        let (run, page) = try #require(try view.beginListing(.root))
        #expect(page.count == 10)
        // Two further pages wait to be taken; nobody will.
        #expect(volume.store.state.wait(timeout: 10) { $0.listings >= 3 ? true : nil } == true)
        #expect(throws: FileError.unknown) { try view.giveUp(run, .unknown) }
        var rest = run
        while (try? rest.takePage()) ?? nil != nil {}
        #expect(volume.store.state.wait(timeout: 0.2) { $0.listings > 3 ? true : nil } == nil)
        let (again, _) = try #require(try view.beginListing(.root))
        view.finish(again)
    }

    @Test func aListingThatFailsHalfWayHidesNothingThatWasKnown() throws {
        let volume = try Volume(metadataAge: 0.000_001)
        for name in names(0..<30) { volume.store.set(name, [1]) }
        volume.store.state.update { $0.pageSize = 10 }
        let handle = try volume.files.openDirectory(Volume.root)
        volume.store.givePages(2)
        let first = try read(volume, handle, from: 0)
        volume.store.setUnreachable(true)
        // It was never listed, so that nobody knows what else is in it.
        #expect(throws: FileError.unreachable) { try readAll(volume, handle, from: first.next, limit: 100) }
        volume.store.setUnreachable(false)
        volume.store.givePages(nil)
        volume.files.remoteBecameReachable()
        #expect(try readAll(volume, handle, limit: 100) == [".", ".."] + names(0..<30))
        volume.store.givePages(2)
        let second = try read(volume, handle, from: 0)
        volume.store.setUnreachable(true)
        let rest = try readAll(volume, handle, from: second.next, limit: 100)
        #expect(second.names + rest == [".", ".."] + names(0..<30))
    }

    @Test(arguments: [true, false])
    func eachNameAppearsOnceWhateverChangesMeanwhile(isFresh: Bool) throws {
        let volume = try Volume(metadataAge: 1000)
        for name in names(0..<3500) { volume.store.set(name, [1], mode: 0o100_600) }
        volume.store.state.update { $0.pageSize = 1000 }
        if isFresh { _ = try volume.names("") }
        let handle = try volume.files.openDirectory(Volume.root)
        var found: [String] = []
        var offset = 0
        for step in 0... {
            let (names, next, _) = try read(volume, handle, from: offset, limit: 311)
            if names.isEmpty { break }
            found += names
            offset = next
            // What the kernel does with what its caller had no room for.
            try volume.put("new-\(step)", [1])
            let again = try read(volume, handle, from: offset - 5, limit: 5)
            #expect(again.names == Array(found.suffix(5)))
            // As rm -r does.
            if step < 3 { for name in names where name.hasPrefix("f") { try volume.unlink(name) } }
        }
        #expect(Array(found.prefix(3502)) == [".", ".."] + names(0..<3500))
        #expect(found.count == 3502)
    }

    @Test func attributesStayKnownWhenTheJournalChanges() throws {
        let volume = try Volume(metadataAge: 1000)
        for name in names(0..<2000) { volume.store.set(name, [1], mode: 0o100_600) }
        for name in names(0..<2000) { _ = try volume.status(name) }
        let handle = try volume.files.openDirectory(Volume.root)
        let first = try read(volume, handle, from: 0, limit: 100)
        #expect(first.known == 98)
        try volume.put("f00500", [1, 2, 3])
        try volume.unlink("f00501")
        let rest = try read(volume, handle, from: first.next)
        #expect(rest.names.count == 1901)
        #expect(rest.known == 1901)
    }

    /// What is given rests on a look at the journal a moment ago.
    @Test func aRowThatIsMadeWhileNamesAreGivenIsSeen() throws {
        let volume = try Volume(metadataAge: 1000)
        for name in names(0..<10) { volume.store.set(name, [1], mode: 0o100_600) }
        // The store does not tell attributes with a listing.
        #expect(try volume.names("") == names(0..<10))
        for name in names(0..<10) { try volume.files.view.describe(ObjectKey(name)) }
        let handle = try volume.files.openDirectory(Volume.root)
        var modes: [UInt32] = []
        try volume.files.readDirectory(handle, from: 2, withStatus: true) { entry in
            modes.append(entry.status?.attributes.mode ?? 0)
            if modes.count == 1 {
                let path = ObjectKey("f00005")
                let changes = AttributeChanges(permissions: 0o640)
                let files = volume.files
                _ = try? files.journal.setAttributes(at: path, remote: files.view.state(of: path), changes)
            }
            return true
        }
        #expect(modes == (0..<10).map { $0 == 5 ? 0o100_640 : 0o100_600 })
    }

    @Test func aMovedFolderIsReadToItsEnd() throws {
        let volume = try Volume(metadataAge: 1000)
        for name in names(0..<2500) { volume.store.set("d/\(name)", [1], mode: 0o100_600) }
        let handle = try volume.files.openDirectory(volume.number("d"))
        let first = try read(volume, handle, from: 0, limit: 100)
        try volume.rename("d", "e")
        let rest = try readAll(volume, handle, from: first.next, limit: 500)
        #expect(first.names + rest == [".", ".."] + names(0..<2500))
    }

    @Test func theServersTimeCostsNoRequestUntilAFileIsChanged() throws {
        let volume = try Volume(metadataAge: 1000, usesServerModificationTime: true)
        for name in ["read", "renamed", "moded", "written", "swapped", "other", "d/inner"] {
            volume.store.set(name, [1, 2], mode: 0o100_640)
        }
        volume.store.set("link", Array("target".utf8), mode: 0o120_777)
        #expect(try volume.names("").count == 8)
        _ = try volume.status("d")
        let heads = volume.store.state.inspect { $0.heads }
        for name in ["read", "link", "d/inner"] {
            let attributes = try volume.status(name).attributes
            #expect(attributes.mode == 0o100_644 && attributes.modified == Timestamp(seconds: 1_000_000))
        }
        #expect(try volume.content("read") == [1, 2])
        #expect(volume.store.state.inspect { $0.heads } == heads)
        // A row keeps all attributes: nothing may be lost that was only not asked for.
        try volume.rename("renamed", "elsewhere")
        try volume.rename("swapped", "other", flags: 2)
        _ = try volume.files.setAttributes(volume.number("moded"), AttributeChanges(uid: 9), size: nil)
        try volume.put("written", [3])
        try volume.rename("d", "e")
        try volume.rename("link", "moved")
        for name in ["elsewhere", "swapped", "other", "moded", "written", "e/inner"] {
            #expect(try volume.status(name).attributes.mode == 0o100_640, "\(name)")
        }
        #expect(try volume.status("moved").attributes.mode == 0o120_777)
        #expect(try volume.files.readLink(volume.number("moved")) == ObjectKey("target"))
    }

    /// Names are asked for ahead of who goes through a folder, all of them and not only the first thousands.
    @Test func attributesAreAskedForAheadToTheEndOfAFolder() throws {
        let all = (0..<5000).map { ObjectKey("d/f\(padded($0, 5))") }
        let asked = Monitor<Set<ObjectKey>>([])
        let prefetcher = Prefetcher { folder, name, limit in
            let known = asked.inspect { $0 }
            return Array(all.filter { $0.name > name && !known.contains($0) }.map(\.name).prefix(limit))
        }
        try prefetcher.start { path in asked.update { _ = $0.insert(path) } }
        defer { prefetcher.stop() }
        prefetcher.missed(all[0])
        // Nobody read the folder.
        #expect(asked.wait(timeout: 0.1) { $0.isEmpty ? nil : true } == nil)
        prefetcher.expect(in: ObjectKey("d"), for: 1)
        var misses = 0
        for (index, path) in all.enumerated() {
            let (count, isKnown) = asked.inspect { ($0.count, $0.contains(path)) }
            if isKnown { continue }
            misses += 1
            prefetcher.missed(path)
            let expected = count + min(Prefetcher.batchSize, all.count - 1 - index)
            try #require(asked.wait(timeout: 10) { $0.count >= expected ? true : nil } == true)
            asked.update { _ = $0.insert(path) }
        }
        #expect(misses <= 6)
    }

    @Test func lookingAtNamesAtRandomAsksForFew() throws {
        let all = (0..<20_000).map { ObjectKey("f\(padded($0, 5))") }
        let asked = Monitor(0)
        let prefetcher = Prefetcher { _, name, limit in Array(all.filter { $0 > name }.prefix(limit)) }
        try prefetcher.start { _ in asked.update { $0 += 1 } }
        defer { prefetcher.stop() }
        prefetcher.expect(in: .root, for: 1)
        for index in [5, 9_000, 17_000, 3_000, 12_000] { prefetcher.missed(all[index]) }
        #expect(asked.wait(timeout: 10) { $0 == Prefetcher.batchSize ? true : nil } == true)
        #expect(asked.wait(timeout: 0.1) { $0 > Prefetcher.batchSize ? true : nil } == nil)
    }
}
