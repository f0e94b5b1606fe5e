// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

extension BucketStorage {
    func openFolder(_ name: ObjectKey, in folder: OpenFile) throws(StorageError) -> OpenFile? {
        try storing { () throws(SystemError) in try FolderCalls.open(name, beneath: folder.descriptor.raw) }
    }

    /// Opens the folder that holds a path's last name; nil when it does not exist.
    func openParent(of path: ObjectPath) throws(StorageError) -> OpenFile? {
        let bucket = try openBucket(path.bucket)
        guard !path.parents.isEmpty else { return bucket }
        return try openFolder(Self.joined(path.parents), in: bucket)
    }

    static func joined(_ names: ArraySlice<ObjectKey>) -> ObjectKey {
        ObjectKey(bytes: Array(names.map(\.bytes).joined(separator: [UInt8(ascii: "/")])))
    }

    /// Opens the folder that holds a path's last name, creating it and what is missing above.
    ///
    /// Folders that got a new name are added to `changed`, to be synchronised outside of locks.
    func makeParent(of path: ObjectPath, changed: inout [OpenFile]) throws(StorageError) -> OpenFile {
        if let folder = try openParent(of: path) { return folder }
        var folder = try openBucket(path.bucket)
        for name in path.parents { folder = try makeFolder(name, in: folder, changed: &changed) }
        return folder
    }

    /// The same; nil when a folder on the way was removed meanwhile, because its last object was deleted.
    func makeParentUnlessRemoved(
        of path: ObjectPath,
        changed: inout [OpenFile]
    ) throws(StorageError) -> OpenFile? {
        do {
            return try makeParent(of: path, changed: &changed)
        } catch {
            if case .system(let failure) = error, failure.code == ENOENT { return nil }
            throw error
        }
    }

    /// Opens a folder, creating it when it is missing; throws `parentIsObject` when a file is in the way.
    func makeFolder(
        _ name: ObjectKey,
        in folder: OpenFile,
        changed: inout [OpenFile]
    ) throws(StorageError) -> OpenFile {
        if let child = try openFolder(name, in: folder) { return child }
        let isNew = try storing { () throws(SystemError) in
            try FolderCalls.makeFolder(name, in: folder.descriptor.raw)
        }
        if isNew { changed.append(folder) }
        if let child = try openFolder(name, in: folder) { return child }
        let status = try storing { () throws(SystemError) in
            try FolderCalls.status(name, in: folder.descriptor.raw)
        }
        guard status == nil || status?.isDirectory == true else { throw .parentIsObject }
        throw .system(SystemError.make(ENOENT, "mkdirat", name.string))
    }

    /// The record of a folder that is an object itself; nil when it only holds others.
    func marker(of folder: OpenFile) throws(StorageError) -> ObjectRecord? {
        try storing { () throws(SystemError) in
            try records.read(folder.descriptor, try folder.descriptor.status())
        }
    }

    /// Removes the folders above a deleted object that are left without content, except markers and the bucket.
    func pruneParents(of path: ObjectPath) throws(StorageError) {
        var names = path.parents
        while let name = names.popLast() {
            let isGone = try structure.withLock { _ throws(StorageError) in
                try removeIfUnused(name, parents: names, bucket: path.bucket)
            }
            guard isGone else { return }
        }
    }

    /// Removes a folder that is no object and holds none, only empty folders at most; whether it is gone.
    func removeUnusedFolder(_ name: ObjectKey, in parent: OpenFile) throws(StorageError) -> Bool {
        try structure.withLock { _ throws(StorageError) in
            guard let folder = try openFolder(name, in: parent), try marker(of: folder) == nil else { return false }
            try removeEmptyFolders(below: folder)
            return try storing { () throws(SystemError) in
                try FolderCalls.removeFolder(name, in: parent.descriptor.raw)
            }
        }
    }

    private func removeIfUnused(
        _ name: ObjectKey,
        parents: ArraySlice<ObjectKey>,
        bucket: ObjectKey
    ) throws(StorageError) -> Bool {
        var folder = try openBucket(bucket)
        if !parents.isEmpty {
            guard let parent = try openFolder(Self.joined(parents), in: folder) else { return false }
            folder = parent
        }
        guard let child = try openFolder(name, in: folder), try marker(of: child) == nil else { return false }
        return try storing { () throws(SystemError) in
            try FolderCalls.removeFolder(name, in: folder.descriptor.raw)
        }
    }
}
