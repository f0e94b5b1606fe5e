// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

extension BucketStorage {
    /// Joins parts, in this order, into the object; durable when it returns.
    ///
    /// A repeated call for an upload that has become the present object answers with that object again.
    /// `makeRecord` checks the parts that are there and says what the object's record is to be.
    func completeUpload<Failure: Error>(
        _ id: String,
        at path: ObjectPath,
        _ conditions: WriteConditions,
        _ wrap: (StorageError) -> Failure,
        choosing choose: (MultipartUpload, [StoredPart]) throws(Failure) -> ([StoredPart], ObjectRecord)
    ) throws(Failure) -> ObjectRecord {
        try activeUploads.withEnding(id) { (isAtRest) throws(Failure) in
            if let finished = try? object(at: path), finished.record.uploadID == id {
                try? removeUploadFolder(id)
                return finished.record
            }
            let (upload, stored) = try mapping(wrap) { () throws(StorageError) in
                let upload = try self.upload(id, at: path)
                return (upload, try parts(of: upload))
            }
            let (chosen, record) = try choose(upload, stored)
            return try mapping(wrap) { () throws(StorageError) in
                try precheck(path, conditions)
                let content = try assemble(chosen, of: upload, isAtRest: isAtRest)
                let finished = try commit(content, record, at: path, conditions)
                try? removeUploadFolder(id)
                return finished
            }
        }
    }

    /// One file with the content of all parts: the shared file where the parts lie in it without gaps.
    private func assemble(
        _ parts: [StoredPart],
        of upload: MultipartUpload,
        isAtRest: Bool
    ) throws(StorageError) -> StagedFile {
        let folder = try openUploadFolder(upload.id)
        if isAtRest, let whole = try adoptData(parts, in: folder) { return whole }
        // Copied even when it is one: a file gets the object's record before its name, and a part whose completion
        // is then refused must keep its own.
        return try copyParts(parts, in: folder)
    }

    private func adoptData(_ parts: [StoredPart], in folder: OpenFile) throws(StorageError) -> StagedFile? {
        var end: Int64 = 0
        for part in parts {
            guard case .slot(let offset) = part.location, offset == end else { return nil }
            end += part.size
        }
        let size = end
        guard let (file, _) = try openData(in: folder) else { return nil }
        try storing { () throws(SystemError) in try file.descriptor.truncate(to: size) }
        return StagedFile(adopting: file, size: size, name: Self.dataName, folder: folder)
    }

    private func copyParts(_ parts: [StoredPart], in folder: OpenFile) throws(StorageError) -> StagedFile {
        let staged = try stage(expected: parts.reduce(0) { $0 + $1.size })
        for part in parts {
            let (name, offset) =
                switch part.location {
                case .file(let own): (own, Int64(0))
                case .slot(let start): (Self.dataName, start)
                }
            guard let file = try openPartFile(name, in: folder) else { throw .noSuchUpload }
            try staged.append(file, ByteRange(offset: offset, count: part.size))
        }
        return staged
    }

    private func openPartFile(_ name: ObjectKey, in folder: OpenFile) throws(StorageError) -> OpenFile? {
        try storing { () throws(SystemError) in try FolderCalls.open(name, beneath: folder.descriptor.raw, O_RDWR) }
    }
}
