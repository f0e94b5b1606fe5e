// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Catalog
internal import Journal
internal import Platform

/// Removing names.
extension FileSystem {
    package func unlink(_ parent: InodeNumber, _ name: ObjectKey) throws(FileError) {
        try ensureWritable()
        let folder = try folder(parent)
        for _ in 0..<Self.looksAtHeir {
            let heir = try heir(of: path(of: parent).appending(name))
            if try unlink(folder, name, heir) { return onChange() }
        }
        throw .stale
    }

    /// False when the file would go on by another name than `heir` by now.
    private func unlink(_ folder: Inode, _ name: ObjectKey, _ heir: Heir?) throws(FileError) -> Bool {
        try knowing([folder.number]) { knowledge throws(FileError) in
            try namespace.alone { () throws(FileError) in
                let path = try path(of: folder.number).appending(name)
                guard try isHeir(heir, of: path) else { return false }
                let presence = try presence(path)
                guard let kind = presence.kind else { throw .noEntry }
                guard kind != .directory else { throw .isDirectory }
                if let heir {
                    try removeFirstName(folder.number, name, path, knowledge, heir)
                } else if case .link = presence {
                    try removeLink(folder.number, name, path, knowledge)
                } else {
                    try removeName(folder.number, name, path, knowledge)
                }
                touchFolder(folder)
                return true
            }
        }
    }

    /// Removes one of several names of a file that is not the first.
    private func removeLink(
        _ parent: InodeNumber,
        _ name: ObjectKey,
        _ path: ObjectKey,
        _ knowledge: Knowledge
    ) throws(FileError) {
        try keepFolder(path.parent, knowledge)
        try removeRow(at: path, knowledge)
        table.remove(parent, name)?.state.withLock { $0.noteStatusChange() }
    }

    /// Removes the first of several names of a file.
    private func removeFirstName(
        _ parent: InodeNumber,
        _ name: ObjectKey,
        _ path: ObjectKey,
        _ knowledge: Knowledge,
        _ heir: Heir
    ) throws(FileError) {
        try keepFolder(path.parent, knowledge)
        try handingOver(table.child(parent, name), to: heir) { () throws(FileError) in
            try removeRow(at: path, knowledge)
        }
        // Nobody has it open; it is found anew by its other name.
        if heir.folder == nil, let inode = table.remove(parent, name) { detach(inode) }
    }

    package func removeDirectory(_ parent: InodeNumber, _ name: ObjectKey) throws(FileError) {
        try ensureWritable()
        let folder = try folder(parent)
        let inode = try find(parent, name)
        guard inode.kind == .directory else { throw .notDirectory }
        // Whether it is empty is for the remote to say, not for a listing of long ago.
        try freshenForRemoval(inode, in: folder)
        try knowing([parent, inode.number]) { knowledge throws(FileError) in
            try namespace.alone { () throws(FileError) in
                let path = try path(of: parent).appending(name)
                guard let kind = try presence(path).kind else { throw .noEntry }
                guard kind == .directory else { throw .notDirectory }
                guard try !hasLiveChildren(path) else { throw .notEmpty }
                try removeName(parent, name, path, knowledge)
                folder.noteSubfolders(-1)
                touchFolder(folder)
            }
        }
        onChange()
    }

    private func removeName(
        _ parent: InodeNumber,
        _ name: ObjectKey,
        _ path: ObjectKey,
        _ knowledge: Knowledge
    ) throws(FileError) {
        try keepFolder(path.parent, knowledge)
        try keepingReadable(table.child(parent, name), at: path) { () throws(FileError) in
            try removeRow(at: path, knowledge)
        }
        if let inode = table.remove(parent, name) { detach(inode) }
    }

    private func removeRow(at path: ObjectKey, _ knowledge: Knowledge) throws(FileError) {
        try translating { try journal.remove(at: path, remote: try view.state(of: path, as: knowledge)) }
    }

    /// Takes an inode off its name: it lives on, for itself, while it is open.
    func detach(_ inode: Inode) {
        let (kept, ended) = inode.state.withLock { state in
            state.isDetached = true
            state.supersededAt = nil
            state.showUploaded()
            let ended = state.handles == 0 ? state.dropContent() : []
            state.node = nil
            state.noteStatusChange()
            noteClosed(&state)
            return (state.kept, ended)
        }
        ended.end()
        keeper.keep(kept)
    }

    /// Gives a folder that the remote only implies a row of its own before a name leaves it: else it would
    /// vanish with its last one.
    func keepFolder(_ path: ObjectKey, _ knowledge: Knowledge) throws(FileError) {
        guard !path.isRoot else { return }
        try translating {
            guard try journal.node(at: path) == nil else { return }
            let (entry, isMissing) = try view.look(at: path)
            guard let entry else {
                if isMissing { return }
                throw FileError.unknown
            }
            guard entry.kind == .directory, entry.hasMarker != true, try view.mayBecomeEmpty(path) else { return }
            // It may have a marker, which is not to get other attributes.
            guard entry.hasMarker != nil, let attributes = view.attributes(of: entry) else { throw FileError.unknown }
            _ = try journal.createDirectory(
                at: path,
                attributes: attributes,
                remote: try view.state(of: path, as: knowledge)
            )
        }
    }
}
