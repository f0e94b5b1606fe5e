// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Testing

@testable import FileSystem

/// What stays of an inode that the kernel forgot.
@Suite struct InodeTableTests {
    private static let attributes = FileAttributes(
        mode: FileAttributes.regularType,
        uid: 0,
        gid: 0,
        modified: Timestamp(seconds: 0)
    )
    private let table = InodeTable(root: attributes)

    private func add(_ name: String) -> Inode {
        let inode = table.make(.file, Self.attributes)
        _ = table.insert(inode, InodeTable.rootNumber, ObjectKey(name), replacing: nil, lookups: 2)
        return inode
    }

    @Test func theLastThatWereForgottenKeepTheirNumbers() {
        let inodes = (0..<InodeTable.forgottenLimit + 10).map { add("\($0)") }
        for inode in inodes {
            table.forget(inode.number, count: 1)
            #expect(table[inode.number] === inode, "the kernel still knows it")
            table.forget(inode.number, count: 1)
        }
        for inode in inodes[..<10] { #expect(table[inode.number] == nil) }
        #expect(table.child(InodeTable.rootNumber, ObjectKey("0")) == nil)
        for (index, inode) in inodes.enumerated().dropFirst(10) {
            #expect(table.child(InodeTable.rootNumber, ObjectKey("\(index)")) === inode)
        }
    }

    @Test func whatTheKernelAsksForAgainIsNotGivenUp() {
        let kept = add("kept")
        table.forget(kept.number, count: 2)
        #expect(table.retain(kept))
        for number in 0..<2 * InodeTable.forgottenLimit { table.forget(add("\(number)").number, count: 2) }
        #expect(table[kept.number] === kept)
    }

    @Test func aRemovedOneIsGivenUpAtOnce() {
        let inode = add("a")
        _ = table.remove(InodeTable.rootNumber, ObjectKey("a"))
        #expect(table[inode.number] === inode)
        table.forget(inode.number, count: 2)
        #expect(table[inode.number] == nil)
    }

    @Test func aFileWithSeveralNamesIsOne() throws {
        let (inode, other) = (add("a"), add("other"))
        let root = InodeTable.rootNumber
        #expect(table.addName(inode, root, ObjectKey("b")) && table.addName(inode, root, ObjectKey("other")))
        #expect(table[other.number] === other, "the kernel still knows it")
        #expect(table.child(root, ObjectKey("b")) === inode && table.child(root, ObjectKey("other")) === inode)
        #expect(table.path(of: inode.number) == ObjectKey("a"))
        #expect(
            table.move(root, ObjectKey("b"), to: root, ObjectKey("c")).moved === inode
                && table.child(root, ObjectKey("b")) == nil
        )
        // The first name goes, another takes its place.
        table.place(inode, root, ObjectKey("c"))
        #expect(table.child(root, ObjectKey("a")) == nil && table.path(of: inode.number) == ObjectKey("c"))
        #expect(table.remove(root, ObjectKey("other")) === inode && table.path(of: inode.number) == ObjectKey("c"))
    }

    @Test func namesOfFilesChangePlaces() throws {
        let (one, two) = (add("one"), add("two"))
        let root = InodeTable.rootNumber
        #expect(table.addName(one, root, ObjectKey("link")))
        let (first, second) = table.exchange(root, ObjectKey("link"), root, ObjectKey("two"))
        #expect(first === two && second === one)
        #expect(table.path(of: two.number) == ObjectKey("link") && table.path(of: one.number) == ObjectKey("one"))
        #expect(table.child(root, ObjectKey("two")) === one)
    }

    @Test func allNamesGoWithAFileThatIsForgotten() throws {
        let root = InodeTable.rootNumber
        let inode = add("a")
        #expect(table.addName(inode, root, ObjectKey("b")))
        table.forget(inode.number, count: 2)
        for number in 0..<2 * InodeTable.forgottenLimit { table.forget(add("\(number)").number, count: 2) }
        #expect(
            table[inode.number] == nil && table.child(root, ObjectKey("a")) == nil
                && table.child(root, ObjectKey("b")) == nil
        )
    }
}
