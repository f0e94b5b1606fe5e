// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Catalog
internal import Journal
internal import Platform

/// Moving names.
extension FileSystem {
    private static let noReplace: UInt32 = 1
    private static let exchange: UInt32 = 2

    /// Moves what stands under one name to another (renameat2(2)).
    package func rename(
        _ parent: InodeNumber,
        _ name: ObjectKey,
        to newParent: InodeNumber,
        _ newName: ObjectKey,
        flags: UInt32
    ) throws(FileError) {
        try ensureWritable()
        guard flags & ~(Self.noReplace | Self.exchange) == 0 else { throw .invalidArgument }
        try freshen(folder(newParent))
        try knowing([parent, newParent]) { knowledge throws(FileError) in
            let source = try findDescribed(parent, name)
            let isExchange = flags & Self.exchange != 0
            let mayReplace = flags & Self.noReplace == 0
            let move = Move(parent, name, newParent, newName, knowledge, mayReplace: mayReplace)
            if isExchange { return try exchangeNames(move) }
            try source.kind == .directory ? moveFolder(source, move) : moveFile(source, move)
        }
        onChange()
    }

    /// The inode under a name with the attributes that move with it.
    private func findDescribed(_ parent: InodeNumber, _ name: ObjectKey) throws(FileError) -> Inode {
        let inode = try find(parent, name)
        let path = try path(of: parent).appending(name)
        // By one more name of a file nobody asks for them.
        if try translating({ try firstName(of: path) }) != nil { try view.describe(path) }
        guard try learnAttributes(at: path) else { return inode }
        return try find(parent, name)
    }

    private struct Move {
        let parent: InodeNumber
        let name: ObjectKey
        let newParent: InodeNumber
        let newName: ObjectKey
        let knowledge: Knowledge
        let mayReplace: Bool

        init(
            _ parent: InodeNumber,
            _ name: ObjectKey,
            _ newParent: InodeNumber,
            _ newName: ObjectKey,
            _ knowledge: Knowledge,
            mayReplace: Bool
        ) {
            self.parent = parent
            self.name = name
            self.newParent = newParent
            self.newName = newName
            self.knowledge = knowledge
            self.mayReplace = mayReplace
        }
    }

    private func moveFile(_ source: Inode, _ move: Move) throws(FileError) {
        for look in 1...Self.looksAtHeir {
            let new = try paths(move).1
            // Outside of the lock, as it takes the disk's time.
            try makeSafe(source, toReplace: new)
            let heir = try heir(of: new)
            if try moveFile(source, move, heir, isLastLook: look >= Self.maximumLooksBeforeReplacing) { return }
        }
        throw .stale
    }

    /// False when the file that has the new name has become one that must not be replaced like this, or that would go on
    /// by another name than `heir`.
    private func moveFile(
        _ source: Inode,
        _ move: Move,
        _ heir: Heir?,
        isLastLook: Bool
    ) throws(FileError) -> Bool {
        try namespace.alone { () throws(FileError) in
            let (old, new) = try paths(move)
            guard try isHeir(heir, of: new) else { return false }
            guard let kind = try presence(old).kind else { throw .noEntry }
            guard kind != .directory else { throw .isDirectory }
            if let target = try presence(new).kind {
                guard move.mayReplace else { throw .exists }
                guard target != .directory else { throw .isDirectory }
            }
            if old == new { return true }
            if try areOfOneFile(old, new) { return true }
            if !isLastLook, try wouldExpose(source, at: new) { return false }
            try settle(move.parent, move.name, at: old)
            try keepFolder(old.parent, move.knowledge)
            try replaceName(move, old, new, heir)
            try touchFolders(move)
            return true
        }
    }

    /// Gives a file, or what has been found to be one of its names, the new name in place of what has that.
    private func replaceName(
        _ move: Move,
        _ old: ObjectKey,
        _ new: ObjectKey,
        _ heir: Heir?
    ) throws(FileError) {
        let isLink = try presence(old).isLink
        let replacesLink = try presence(new).isLink
        let target = table.child(move.newParent, move.newName)
        func rename() throws(FileError) -> JournalNode? {
            try translating {
                try journal.rename(
                    from: old,
                    to: new,
                    sourceRemote: try view.state(of: old, as: move.knowledge),
                    targetRemote: try view.state(of: new, as: move.knowledge)
                )
            }
        }
        // Of a file with several names only one goes.
        let node =
            if let heir {
                try handingOver(target, to: heir, rename)
            } else if replacesLink {
                try rename()
            } else {
                try keepingReadable(target, at: new, rename)
            }
        let (moved, replaced) = table.move(move.parent, move.name, to: move.newParent, move.newName)
        if replacesLink {
            replaced?.state.withLock { $0.noteStatusChange() }
        } else if let replaced, replaced !== moved, heir?.folder == nil {
            detach(replaced)
        }
        if isLink {
            moved?.state.withLock { $0.noteStatusChange() }
        } else {
            if let moved, let node { _ = try adoptUpload(moved, node) }
            moved?.wasMoved(node, to: new)
        }
    }

    /// Learns all that the remote has below a folder, where it has anything.
    private func learnTree(_ folder: Inode, at path: ObjectKey) throws(FileError) {
        if try isLocalOnly(folder) { return }
        try orAsMadeHere(path) { () throws(FileError) in try view.learnTree(path) }
    }

    private func moveFolder(_ source: Inode, _ move: Move) throws(FileError) {
        if let target = try? find(move.newParent, move.newName), target.kind == .directory {
            try freshenForRemoval(target, in: folder(move.newParent))
        }
        // Everything below moves with it, so everything below must be known.
        try onOneGround { ground throws(FileError) in
            let oldPath = try path(of: source.number)
            try learnTree(source, at: oldPath)
            try moveKnownFolder(source, at: oldPath, move, ground)
        }
    }

    /// Does what needs whole trees known; again where a catalog in memory may lack what was sent since it was begun.
    ///
    /// Under many uploads the journal changes all the time, so the last time that does not count.
    private func onOneGround(_ body: (ListingGround?) throws(FileError) -> Void) throws(FileError) {
        for attempt in 0..<4 {
            let ground = attempt < 3 ? view.groundInMemory : nil
            do throws(FileError) {
                return try body(ground)
            } catch {
                guard case .unknown = error, ground != nil, view.groundInMemory != ground else { throw error }
            }
        }
    }

    private func moveKnownFolder(
        _ source: Inode,
        at oldPath: ObjectKey,
        _ move: Move,
        _ ground: ListingGround?
    ) throws(FileError) {
        try namespace.alone { () throws(FileError) in
            let (old, new) = try paths(move, isFolder: true)
            guard old == oldPath, case .directory = try presence(old).kind else { throw .noEntry }
            guard !new.isInside(old) || new == old else { throw .invalidArgument }
            if old == new { return }
            let target = try presence(new).kind
            if let target {
                guard move.mayReplace else { throw .exists }
                guard target == .directory else { throw .notDirectory }
                guard try !hasLiveChildren(new) else { throw .notEmpty }
            }
            try checkPaths(at: old, isFolder: true, growingBy: new.bytes.count - old.bytes.count)
            let known = try settleFiles(below: old)
            try keepFolder(old.parent, move.knowledge)
            try translating {
                try journal.renameDirectory(
                    from: old,
                    to: new,
                    sourceRemote: try view.state(of: old, as: move.knowledge),
                    targetRemote: try view.state(of: new, as: move.knowledge),
                    entries: try view.tree(old, as: move.knowledge, on: ground)
                )
            }
            let (moved, replaced) = table.move(move.parent, move.name, to: move.newParent, move.newName)
            if let replaced { detach(replaced) }
            let node = try translating { try journal.node(at: new) }
            moved?.noteFolderMoved(node)
            // Their rows are new: what is done with them from now on must find them.
            try followRows(known)
            try folder(move.parent).noteSubfolders(-1)
            if target == nil { try folder(move.newParent).noteSubfolders(1) }
            try touchFolders(move)
        }
    }

    /// Refuses to move something where it, or what is in it, would have a path that no key can hold.
    private func checkPaths(at path: ObjectKey, isFolder: Bool, growingBy growth: Int) throws(FileError) {
        guard growth > 0 else { return }
        let longest = try translating {
            let rows = try journal.descendants(of: path)
            let others = try view.longestKey(below: path, except: Set(rows.map(\.path)))
            let own = rows.filter { !$0.isTombstone }.map { $0.path.keyLength(isFolder: $0.kind == .directory) }
            return max(own.max() ?? 0, others, path.keyLength(isFolder: isFolder))
        }
        if longest + growth > options.longestPath { throw .nameTooLong }
    }

    /// Makes sure that the inode under a name stands for what is there now, or takes it off the name.
    private func settle(_ parent: InodeNumber, _ name: ObjectKey, at path: ObjectKey) throws(FileError) {
        guard let inode = table.child(parent, name), try !presence(path).isLink, try !follow(inode, at: path) else {
            return
        }
        inode.state.withLock { state in
            if !state.isDetached { state.supersededAt = Inode.SupersededPlace(folder: parent, name: name) }
        }
        _ = table.remove(parent, name)
    }

    /// Settles every file and link that the kernel knows below a folder: their rows will be others.
    private func settleFiles(below folder: ObjectKey) throws(FileError) -> [Inode] {
        var settled: [Inode] = []
        for (inode, parent, name) in table.named where inode.kind != .directory {
            guard let path = table.path(of: inode.number), path.isInside(folder) else { continue }
            try settle(parent, name, at: path)
            if table.child(parent, name) === inode { settled.append(inode) }
        }
        return settled
    }

    private func exchangeNames(_ move: Move) throws(FileError) {
        let (parent, name, newParent, newName) = (move.parent, move.name, move.newParent, move.newName)
        let other = try findDescribed(newParent, newName)
        let mine = try findDescribed(parent, name)
        if mine.kind == .directory || other.kind == .directory { return try exchangeTrees(move, mine, other) }
        let names = try paths(move)
        try makeSafe(mine, toReplace: names.1)
        try makeSafe(other, toReplace: names.0)
        try namespace.alone { () throws(FileError) in
            let first = try path(of: parent).appending(name)
            let second = try path(of: newParent).appending(newName)
            guard let one = try presence(first).kind, let two = try presence(second).kind else { throw .noEntry }
            guard one != .directory, two != .directory else { throw .invalidArgument }
            if first == second { return }
            if try areOfOneFile(first, second) { return }
            try settle(parent, name, at: first)
            try settle(newParent, newName, at: second)
            try translating {
                try journal.exchange(
                    first,
                    second,
                    firstRemote: try view.state(of: first, as: move.knowledge),
                    secondRemote: try view.state(of: second, as: move.knowledge)
                )
            }
            let (here, there) = table.exchange(newParent, newName, parent, name)
            try noteMoved(here, to: second)
            try noteMoved(there, to: first)
            try touchFolders(move)
        }
    }

    /// Exchanges two things of which one at least is a folder.
    private func exchangeTrees(_ move: Move, _ mine: Inode, _ other: Inode) throws(FileError) {
        try onOneGround { ground throws(FileError) in try exchangeTrees(move, mine, other, ground) }
    }

    private func exchangeTrees(
        _ move: Move,
        _ mine: Inode,
        _ other: Inode,
        _ ground: ListingGround?
    ) throws(FileError) {
        let old = try (
            path(of: move.parent).appending(move.name), path(of: move.newParent).appending(move.newName)
        )
        // Everything below moves with them, so everything below must be known.
        for (inode, path) in [(mine, old.0), (other, old.1)] where inode.kind == .directory {
            try learnTree(inode, at: path)
        }
        try namespace.alone { () throws(FileError) in
            let first = try path(of: move.parent).appending(move.name)
            let second = try path(of: move.newParent).appending(move.newName)
            let (one, two) = (try presence(first), try presence(second))
            let kinds = (one.isLink ? mine.kind : one.kind, two.isLink ? other.kind : two.kind)
            guard (first, second) == old, kinds == (mine.kind, other.kind) else { throw .noEntry }
            if first == second { return }
            guard !first.isInside(second), !second.isInside(first) else { throw .invalidArgument }
            let growth = second.bytes.count - first.bytes.count
            try checkPaths(at: first, isFolder: kinds.0 == .directory, growingBy: growth)
            try checkPaths(at: second, isFolder: kinds.1 == .directory, growingBy: -growth)
            let known = try settleFiles(below: first) + settleFiles(below: second)
            // Where a file takes a folder's place, or a folder a file's, there is nothing at the remote for a moment.
            try keepFolder(first.parent, move.knowledge)
            try keepFolder(second.parent, move.knowledge)
            try translating {
                try journal.exchangeTrees(
                    first,
                    second,
                    firstRemote: try view.state(of: first, as: move.knowledge),
                    secondRemote: try view.state(of: second, as: move.knowledge),
                    firstEntries: mine.kind == .directory ? try view.tree(first, as: move.knowledge, on: ground) : [],
                    secondEntries: other.kind == .directory ? try view.tree(second, as: move.knowledge, on: ground) : []
                )
            }
            try place(mine, other, of: move, first, second)
            // Their rows are new: what is done with them from now on must find them.
            try followRows(known.filter { $0 !== mine && $0 !== other })
        }
    }

    /// Puts two inodes under each other's names.
    private func place(
        _ mine: Inode,
        _ other: Inode,
        of move: Move,
        _ first: ObjectKey,
        _ second: ObjectKey
    ) throws(FileError) {
        let (here, there) = table.exchange(move.newParent, move.newName, move.parent, move.name)
        for (inode, path) in [(here, second), (there, first)] {
            guard inode?.kind == .directory else {
                try noteMoved(inode, to: path)
                continue
            }
            let node = try translating { try journal.node(at: path) }
            inode?.noteFolderMoved(node)
        }
        if mine.kind != other.kind {
            let growth = mine.kind == .directory ? 1 : -1
            try folder(move.parent).noteSubfolders(-growth)
            try folder(move.newParent).noteSubfolders(growth)
        }
        try touchFolders(move)
    }

    private func noteMoved(_ inode: Inode?, to path: ObjectKey) throws(FileError) {
        if let inode, table.path(of: inode.number) != path {
            // By another name than its first.
            return inode.state.withLock { $0.noteStatusChange() }
        }
        let node = try translating { try journal.node(at: path) }
        if let inode, let node { _ = try adoptUpload(inode, node) }
        inode?.wasMoved(node, to: path)
    }

    /// Shows what is below a folder that was moved by its new rows.
    ///
    /// The move is done, whatever becomes of this: what is not known of the remote now is asked for at the next use.
    private func followRows(_ inodes: [Inode]) throws(FileError) {
        for inode in inodes {
            guard let path = table.path(of: inode.number) else { continue }
            do throws(FileError) {
                _ = try follow(inode, at: path)
            } catch {
                guard case .unknown = error else { throw error }
            }
        }
    }

    private func paths(_ move: Move, isFolder: Bool = false) throws(FileError) -> (ObjectKey, ObjectKey) {
        let old = try path(of: move.parent).appending(move.name)
        return (old, try checkedNew(move.newName, in: path(of: move.newParent), isFolder: isFolder))
    }

    private func touchFolders(_ move: Move) throws(FileError) {
        try touchFolder(folder(move.parent))
        try touchFolder(folder(move.newParent))
    }
}

extension Inode {
    /// The row of this folder is `node` now; nil: it is as at the remote again.
    fileprivate func noteFolderMoved(_ node: JournalNode?) {
        state.withLock { state in
            state.noteStatusChange()
            state.node = node?.id
            state.isLocalOnly = node?.isLocalOnly ?? false
        }
    }

    /// The row of this file is `node` now; nil: it is as at the remote again.
    func wasMoved(_ node: JournalNode?, to path: ObjectKey) {
        state.withLock { state in
            state.noteStatusChange()
            state.node = node?.id
            if let node {
                // A clean file got a row over its remote version: the content it shows is the same.
                if state.content.generation == nil { state.content.generation = node.generation?.id }
            } else if let whole = state.content.wholeRemote {
                state.content = .remote(path, whole.version)
                state.isLoaded = true
                state.isWritable = false
            }
        }
    }
}
