// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Control

/// Puts uploads together to the tree of folders they are in.
struct ProgressTree {
    /// One upload.
    struct Leaf: Sendable {
        var id: String
        var path: ObjectKey
        var size: Int64
        var sent: Int64
        var state: UploadReport.State
        var bytesPerSecond: Int64 = 0
        var restarts = 0
        var parts: [TreeReport] = []
    }

    /// What became remote in a folder since nothing was pending in the volume.
    struct Done: Sendable, Hashable {
        var files = 0
        var bytes: Int64 = 0
    }

    /// How many children of one node are told; those that run come first.
    static let childLimit = 100
    /// How many nodes are told altogether.
    static let limit = 2000

    private final class Folder {
        var folders: [ObjectKey: Folder] = [:]
        var leaves: [Leaf] = []
        var done = Done()
        /// What is below it, added up, without its children.
        var sum = TreeReport(kind: .folder, name: "", path: "")
    }

    private let root = Folder()
    private let paused: Set<ObjectKey>
    private let base: ObjectKey

    /// The tree at and below `base`, with what is done in each folder and the places that a person holds.
    init(_ leaves: [Leaf], done: [ObjectKey: Done], paused: Set<ObjectKey>, below base: ObjectKey) {
        self.paused = paused
        self.base = base
        for leaf in leaves where leaf.path.isInside(base) {
            folder(leaf.path == base ? base.parent : leaf.path.parent).leaves.append(leaf)
        }
        for (path, count) in done where path.isInside(base) { folder(path).done = count }
        for path in paused where path.isInside(base) && !leaves.contains(where: { $0.path == path }) {
            _ = folder(path)
        }
    }

    /// The folder's place in the tree, made if need be.
    private func folder(_ path: ObjectKey) -> Folder {
        guard !path.isRoot, path != base, path.isInside(base) else { return root }
        let parent = folder(path.parent)
        if let known = parent.folders[path] { return known }
        let made = Folder()
        parent.folders[path] = made
        return made
    }

    /// The tree, whose root is called `name` where it is the volume.
    func report(name: String) -> TreeReport {
        if let leaf = root.leaves.first, root.leaves.count == 1, leaf.path == base, !base.isRoot { return report(leaf) }
        addUp(root, base, name: base.isRoot ? name : base.name.string)
        if base.isRoot { root.sum.kind = .volume }
        var left = Self.limit
        return report(root, &left)
    }

    private func addUp(_ folder: Folder, _ path: ObjectKey, name: String) {
        var sum = TreeReport(kind: .folder, name: name, path: path.string)
        sum.isPaused = paused.contains(path)
        (sum.files, sum.filesDone) = (folder.done.files, folder.done.files)
        (sum.size, sum.sent) = (folder.done.bytes, folder.done.bytes)
        for (path, child) in folder.folders {
            addUp(child, path, name: path.name.string)
            sum.add(child.sum)
        }
        for leaf in folder.leaves { sum.add(report(leaf)) }
        folder.sum = sum
    }

    /// A folder with as many of its children as there is room for, theirs only where room is left for all beside them.
    private func report(_ folder: Folder, _ left: inout Int) -> TreeReport {
        var node = folder.sum
        var children = folder.folders.map { (report: $0.value.sum, folder: Optional($0.value)) }
        children += folder.leaves.map { (report($0), nil) }
        children.sort { left, right in
            (left.report.bytesPerSecond > 0 ? 0 : 1, left.report.path) < (
                right.report.bytesPerSecond > 0 ? 0 : 1, right.report.path
            )
        }
        let shown = max(0, min(children.count, Self.childLimit, left))
        left -= shown
        node.more = children.count - shown
        for child in children.prefix(shown) {
            node.children.append(child.folder.map { report($0, &left) } ?? child.report)
        }
        return node
    }

    private func report(_ leaf: Leaf) -> TreeReport {
        var node = TreeReport(kind: .file, name: leaf.path.name.string, path: leaf.path.string)
        node.id = leaf.id
        node.state = leaf.state
        node.files = 1
        node.size = leaf.size
        node.sent = leaf.sent
        node.bytesPerSecond = leaf.bytesPerSecond
        node.restarts = leaf.restarts
        node.isPaused = paused.contains(leaf.path)
        node.children = leaf.parts
        return node
    }
}

extension TreeReport {
    fileprivate mutating func add(_ child: TreeReport) {
        files += child.files
        filesDone += child.filesDone
        size += child.size
        sent += child.sent
        bytesPerSecond += child.bytesPerSecond
        restarts += child.restarts
    }
}
