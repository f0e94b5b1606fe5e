// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Control
import Testing

@testable import Flusher

@Suite struct ProgressTreeTests {
    private func leaf(_ path: String, _ sent: Int64, of size: Int64, rate: Int64 = 0) -> ProgressTree.Leaf {
        var leaf = ProgressTree.Leaf(id: path, path: ObjectKey(path), size: size, sent: sent, state: .queued)
        leaf.bytesPerSecond = rate
        return leaf
    }

    private func tree(
        _ leaves: [ProgressTree.Leaf],
        done: [String: (Int, Int64)] = [:],
        paused: Set<String> = [],
        below: String = ""
    ) -> TreeReport {
        let counts = Dictionary(
            uniqueKeysWithValues: done.map {
                (ObjectKey($0.key), ProgressTree.Done(files: $0.value.0, bytes: $0.value.1))
            }
        )
        let places = Set(paused.map { ObjectKey($0) })
        return ProgressTree(leaves, done: counts, paused: places, below: ObjectKey(below)).report(name: "s3://b")
    }

    @Test func foldersAddUpWhatIsBelowThem() throws {
        let root = tree([leaf("a/b/1", 10, of: 100), leaf("a/2", 20, of: 50, rate: 5), leaf("3", 0, of: 7)])
        #expect(root.kind == .volume && root.name == "s3://b")
        #expect((root.files, root.filesDone, root.size, root.sent) == (3, 0, 157, 30) && root.bytesPerSecond == 5)
        let a = try #require(root.children.first { $0.path == "a" })
        #expect(a.kind == .folder && a.size == 150 && a.sent == 30 && a.files == 2)
        #expect(a.children.map(\.path) == ["a/2", "a/b"], "what runs comes first")
        #expect(a.children[1].children.map(\.name) == ["1"])
    }

    @Test func whatBecameRemoteStillCountsSoThatProgressDoesNotFall() {
        let before = tree([leaf("a/1", 90, of: 100), leaf("a/2", 0, of: 100)])
        let after = tree([leaf("a/2", 0, of: 100)], done: ["a": (1, 100)])
        #expect((before.sent, before.size) == (90, 200) && (after.sent, after.size) == (100, 200))
        #expect(after.files == 2 && after.filesDone == 1)
    }

    @Test func pausedPlacesAreShownAlsoWhereNothingIsPending() throws {
        let root = tree([leaf("x", 0, of: 1)], paused: ["later/deep", "x"])
        let later = try #require(root.children.first { $0.path == "later" })
        #expect(!later.isPaused && later.children.map(\.isPaused) == [true])
        #expect(root.children.first { $0.path == "x" }?.isPaused == true)
        #expect(root.children.first { $0.path == "x" }?.kind == .file, "a file is shown once")
    }

    @Test func aTreeMayBeginAnywhere() {
        let leaves = [leaf("a/b/1", 10, of: 100), leaf("c", 0, of: 7)]
        let folder = tree(leaves, below: "a/b")
        #expect(folder.kind == .folder && folder.path == "a/b" && folder.children.map(\.path) == ["a/b/1"])
        let file = tree(leaves, below: "a/b/1")
        #expect(file.kind == .file && file.sent == 10)
        #expect(tree(leaves, below: "nowhere").files == 0)
    }

    @Test func aLargeTreeIsBoundedAndItsSumsAreWhole() {
        let leaves = (0..<20_000).map { leaf("f\($0 / 200)/\($0)", 1, of: 2) }
        let root = tree(leaves)
        #expect(root.files == 20_000 && root.sent == 20_000 && root.size == 40_000)
        func count(_ node: TreeReport) -> Int { node.children.reduce(1) { $0 + count($1) } }
        func told(_ node: TreeReport) -> Int { node.children.reduce(node.more) { $0 + told($1) } }
        #expect(count(root) <= ProgressTree.limit + 1 && root.children.count == 100)
        #expect(told(root) > 0)
    }
}
