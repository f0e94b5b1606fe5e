// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// A folder that is served as a bucket.
struct BucketEntry: Hashable, Sendable {
    let name: ObjectKey
    let created: Timestamp
}

extension BucketStorage {
    /// The buckets by name.
    func buckets() throws(StorageError) -> [BucketEntry] {
        let entries = try storing { () throws(SystemError) in try FolderCalls.entries(of: root) }
        var buckets: [BucketEntry] = []
        for entry in entries where entry.isFolder && (try? ObjectPath.check(bucket: entry.name)) != nil {
            let status = try storing { () throws(SystemError) in
                try FolderCalls.status(entry.name, in: root.descriptor.raw)
            }
            if let status { buckets.append(BucketEntry(name: entry.name, created: status.modified)) }
        }
        return buckets.sorted { $0.name < $1.name }
    }

    /// Opens a bucket's folder; throws `noSuchBucket`.
    func openBucket(_ bucket: ObjectKey) throws(StorageError) -> OpenFile {
        guard (try? ObjectPath.check(bucket: bucket)) != nil else { throw .noSuchBucket }
        let folder = try storing { () throws(SystemError) in
            try FolderCalls.open(bucket, beneath: root.descriptor.raw)
        }
        guard let folder else { throw .noSuchBucket }
        return folder
    }

    /// Creates a bucket; throws `bucketExists` when it is there.
    func createBucket(_ bucket: ObjectKey) throws(StorageError) {
        guard ObjectPath.isValidForNewBucket(bucket) else { throw .invalidBucketName }
        let isNew = try storing { () throws(SystemError) in
            try FolderCalls.makeFolder(bucket, in: root.descriptor.raw)
        }
        guard isNew else { throw .bucketExists }
        try synchronizeFolder(root)
    }

    /// Removes a bucket without objects and without uploads in progress.
    func deleteBucket(_ bucket: ObjectKey) throws(StorageError) {
        let folder = try openBucket(bucket)
        guard try uploadIDs(in: bucket).isEmpty else { throw .bucketNotEmpty }
        let isGone = try structure.withLock { _ throws(StorageError) in
            try removeEmptyFolders(below: folder)
            return try storing { () throws(SystemError) in
                try FolderCalls.removeFolder(bucket, in: root.descriptor.raw)
            }
        }
        guard isGone else { throw .bucketNotEmpty }
        try synchronizeFolder(root)
    }

    /// Removes folders that hold nothing and are no objects themselves, as other programs may have left them.
    ///
    /// Keys may be hundreds of folders deep, and the stacks of threads are small: it keeps one of its own.
    func removeEmptyFolders(below folder: OpenFile) throws(StorageError) {
        var path = [(folder: folder, rest: try foldersAlone(in: folder))]
        var names: [ObjectKey] = []
        while let (parent, rest) = path.last {
            if let name = rest.last {
                path[path.count - 1].rest.removeLast()
                guard path.count <= 512, let child = try openFolder(name, in: parent), try marker(of: child) == nil
                else { continue }
                path.append((child, try foldersAlone(in: child)))
                names.append(name)
            } else {
                path.removeLast()
                guard let name = names.popLast(), let above = path.last?.folder else { return }
                _ = try storing { () throws(SystemError) in
                    try FolderCalls.removeFolder(name, in: above.descriptor.raw)
                }
            }
        }
    }

    /// The folders in a folder that holds nothing else; none when there is a file, which keeps it.
    private func foldersAlone(in folder: OpenFile) throws(StorageError) -> [ObjectKey] {
        let entries = try storing { () throws(SystemError) in try FolderCalls.entries(of: folder) }
        return entries.allSatisfy(\.isFolder) ? entries.map(\.name) : []
    }
}
