// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import HTTPWire
internal import Platform

extension BucketStorage {
    private static let manifest = "manifest"

    private func uploadPath(_ id: String) -> String { "\(privateDirectory)/uploads/\(id)" }

    /// Begins a multipart upload and makes it durable.
    func createUpload(
        at path: ObjectPath,
        fields: HTTPFields,
        checksumAlgorithm: String?,
        isComposite: Bool
    ) throws(StorageError) -> MultipartUpload {
        _ = try openBucket(path.bucket)
        let id = Randomness.hexadecimal(bytes: 16)
        var upload = MultipartUpload(id: id, bucket: path.bucket, key: path.key, initiated: Timestamp.now())
        upload.fields = fields
        upload.checksumAlgorithm = checksumAlgorithm
        upload.isComposite = isComposite
        let manifest = upload.encoded
        try storing { () throws(SystemError) in
            try Files.makeDirectories(uploadPath(id))
            try Files.writeAtomically("\(uploadPath(id))/\(Self.manifest)", manifest)
        }
        try synchronizeFolder(uploads)
        return upload
    }

    /// The upload in progress of that identifier; throws `noSuchUpload`, also when it is for another key.
    func upload(_ id: String, at path: ObjectPath) throws(StorageError) -> MultipartUpload {
        guard let upload = try upload(id), upload.bucket == path.bucket, upload.key == path.key else {
            throw .noSuchUpload
        }
        return upload
    }

    private func upload(_ id: String) throws(StorageError) -> MultipartUpload? {
        guard MultipartUpload.isValid(id: id) else { return nil }
        let path = "\(uploadPath(id))/\(Self.manifest)"
        return try storing { () throws(SystemError) in
            guard try FileStatus.of(path) != nil else { return nil }
            return MultipartUpload(id: id, encoded: try Files.read(path))
        }
    }

    /// The uploads in progress in a bucket by key and time.
    func uploadsInProgress(in bucket: ObjectKey) throws(StorageError) -> [MultipartUpload] {
        var result: [MultipartUpload] = []
        for id in try uploadIDs() {
            if let upload = try upload(id), upload.bucket == bucket { result.append(upload) }
        }
        return result.sorted { ($0.key, $0.initiated, $0.id) < ($1.key, $1.initiated, $1.id) }
    }

    func uploadIDs(in bucket: ObjectKey) throws(StorageError) -> [String] {
        try uploadsInProgress(in: bucket).map(\.id)
    }

    private func uploadIDs() throws(StorageError) -> [String] {
        let entries = try storing { () throws(SystemError) in try FolderCalls.entries(of: uploads) }
        return entries.map(\.name.string).filter(MultipartUpload.isValid)
    }

    /// Opens the folder of an upload in progress; throws `noSuchUpload`.
    func openUploadFolder(_ id: String) throws(StorageError) -> OpenFile {
        guard MultipartUpload.isValid(id: id), let folder = try openFolder(ObjectKey(id), in: uploads) else {
            throw .noSuchUpload
        }
        return folder
    }

    /// Removes an upload and its parts; waits while it is being completed.
    func abortUpload(_ id: String, at path: ObjectPath) throws(StorageError) {
        _ = try upload(id, at: path)
        try activeUploads.withEnding(id) { (_) throws(StorageError) in
            _ = try upload(id, at: path)
            try removeUploadFolder(id)
        }
    }

    /// Removes an upload's folder, the manifest first: without it the rest is only litter.
    func removeUploadFolder(_ id: String) throws(StorageError) {
        let folder = try openUploadFolder(id)
        try storing { () throws(SystemError) in
            try Files.removeIfPresent("\(uploadPath(id))/\(Self.manifest)")
            for entry in try FolderCalls.entries(of: folder) where !entry.isFolder {
                if let status = try FolderCalls.status(entry.name, in: folder.descriptor.raw) {
                    records.forget(inode: status.inode)
                }
                try? FolderCalls.removeFile(entry.name, in: folder.descriptor.raw)
            }
            _ = try FolderCalls.removeFolder(ObjectKey(id), in: uploads.descriptor.raw)
        }
    }

    /// Removes uploads that were begun before `time` or have lost their manifest.
    func removeUploads(begunBefore time: Timestamp) throws(StorageError) {
        for id in try uploadIDs() {
            if let upload = try upload(id), upload.initiated >= time { continue }
            let path = uploadPath(id)
            let status = try storing { () throws(SystemError) in try FileStatus.of(path) }
            // A folder without a manifest may be one that is just being made.
            guard let status, status.modified < time else { continue }
            try activeUploads.withEnding(id) { (_) throws(StorageError) in try removeUploadFolder(id) }
        }
    }
}
