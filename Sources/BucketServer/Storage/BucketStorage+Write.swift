// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import HTTPWire
internal import Platform

extension BucketStorage {
    /// A new hidden file for content that is to become an object or a part.
    func stage(expected: Int64? = nil) throws(StorageError) -> StagedFile {
        try StagedFile(in: temporary, expected: expected)
    }

    /// Checks conditions before the content is received; they are checked again at the commit.
    func precheck(_ path: ObjectPath, _ conditions: WriteConditions) throws(StorageError) {
        guard let parent = try openParent(of: path) else { return try conditions.check(nil) }
        guard !conditions.isEmpty else { return }
        try conditions.check(try object(path.name, in: parent, path.isFolder))
    }

    /// Makes a staged file the object at `path`, if the conditions hold; durable when it returns.
    ///
    /// `record` gets the file's stamp; the finished record is returned.
    func commit(
        _ staged: StagedFile,
        _ record: ObjectRecord,
        at path: ObjectPath,
        _ conditions: WriteConditions
    ) throws(StorageError) -> ObjectRecord {
        var record = record
        record.stamp = try storing { () throws(SystemError) in FileStamp(try staged.file.descriptor.status()) }
        let finished = record
        try storing { () throws(SystemError) in try records.write(finished, to: staged.file.descriptor) }
        try synchronize(staged.file)
        let changed = try keyLocks.withLock(path) { () throws(StorageError) in
            try place(staged, at: path, conditions)
        }
        for folder in changed.reversed() { try synchronizeFolder(folder) }
        return record
    }

    /// Checks the conditions and renames, under the key's lock.
    ///
    /// Returns the folders that changed, from the top.
    private func place(
        _ staged: StagedFile,
        at path: ObjectPath,
        _ conditions: WriteConditions
    ) throws(StorageError) -> [OpenFile] {
        var changed: [OpenFile] = []
        // Folders that others remove meanwhile are made again; each round somebody else has got on.
        for _ in 0..<100 {
            if !conditions.isEmpty { try precheck(path, conditions) }
            guard let parent = try makeParentUnlessRemoved(of: path, changed: &changed) else { continue }
            do {
                let old = try? FolderCalls.status(path.name, in: parent.descriptor.raw)
                try staged.place(as: path.name, in: parent)
                if let old { records.forget(inode: old.inode) }
                return changed + [parent]
            } catch {
                switch error.code {
                case ENOENT: continue
                case EISDIR where try removeUnusedFolder(path.name, in: parent): continue
                case EISDIR, ENOTEMPTY, EEXIST: throw .isFolder
                default: throw StorageError(error)
                }
            }
        }
        throw .system(SystemError.make(EBUSY, "renameat", path.key.string))
    }

    /// Makes a folder an object of its own (the key ends in a slash).
    func putMarker(
        _ record: ObjectRecord,
        at path: ObjectPath,
        _ conditions: WriteConditions
    ) throws(StorageError) {
        let changed = try keyLocks.withLock(path) { () throws(StorageError) in
            try precheck(path, conditions)
            return try structure.withLock { _ throws(StorageError) in
                var changed: [OpenFile] = []
                let parent = try makeParent(of: path, changed: &changed)
                let folder = try makeFolder(path.name, in: parent, changed: &changed)
                try storing { () throws(SystemError) in try records.write(record, to: folder.descriptor) }
                return changed + [folder]
            }
        }
        for folder in changed.reversed() { try synchronizeFolder(folder) }
    }

    /// Replaces what is kept beside an object's content, leaving the content and its tag.
    ///
    /// One extended attribute is replaced, which the file system does wholly or not at all.
    func replaceFields(
        at path: ObjectPath,
        _ fields: HTTPFields,
        expecting expected: ObjectRecord,
        _ conditions: WriteConditions
    ) throws(StorageError) -> ObjectRecord {
        try keyLocks.withLock(path) { () throws(StorageError) in
            let object = try object(at: path)
            try conditions.check(object)
            guard object.record.entityTag == expected.entityTag else { throw .preconditionFailed }
            var record = object.record
            record.fields = fields
            record.modified = Timestamp.now()
            let target: OpenFile
            if let file = object.file {
                target = file
            } else {
                guard let parent = try openParent(of: path), let folder = try openFolder(path.name, in: parent) else {
                    throw .noSuchKey
                }
                target = folder
            }
            let finished = record
            try storing { () throws(SystemError) in try records.write(finished, to: target.descriptor) }
            if syncs { try storing { () throws(SystemError) in try target.descriptor.synchronize() } }
            return record
        }
    }

    /// Deletes an object if the conditions hold; a missing one is no error without conditions.
    func delete(_ path: ObjectPath, _ conditions: WriteConditions) throws(StorageError) {
        let changed = try keyLocks.withLock(path) { () throws(StorageError) -> [OpenFile] in
            if !conditions.isEmpty { try precheck(path, conditions) }
            guard let parent = try openParent(of: path) else { return [] }
            if path.isFolder { return try deleteMarker(path, in: parent) }
            try deleteFile(path, in: parent)
            // Also when there was none: an earlier request may have removed it, and died before it was durable.
            return [parent]
        }
        guard !changed.isEmpty else { return }
        for folder in changed { try synchronizeFolder(folder) }
        try pruneParents(of: path)
    }

    private func deleteFile(_ path: ObjectPath, in parent: OpenFile) throws(StorageError) {
        try storing { () throws(SystemError) in
            guard let status = try FolderCalls.status(path.name, in: parent.descriptor.raw), status.isRegularFile
            else { return }
            try FolderCalls.removeFile(path.name, in: parent.descriptor.raw)
            records.forget(inode: status.inode)
        }
    }

    /// Takes the record from a folder, and the folder away when it is empty; the folders that changed.
    private func deleteMarker(_ path: ObjectPath, in parent: OpenFile) throws(StorageError) -> [OpenFile] {
        try structure.withLock { _ throws(StorageError) in
            guard let folder = try openFolder(path.name, in: parent), try marker(of: folder) != nil else { return [] }
            try storing { () throws(SystemError) in
                try records.remove(from: folder.descriptor)
                _ = try FolderCalls.removeFolder(path.name, in: parent.descriptor.raw)
            }
            return [folder, parent]
        }
    }
}
