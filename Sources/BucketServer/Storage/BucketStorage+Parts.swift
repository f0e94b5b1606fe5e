// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import HTTPWire
internal import Platform

/// The content of one part being received.
struct StagedPart {
    let number: Int
    let content: StagedFile
    /// The part's place in the shared file; nil when it is a file of its own.
    let offset: Int64?
}

// Parts of equal size go straight to their places in one file ("slots"), so
// that completing an upload is a rename. A part that comes a second time, has
// another size or an unknown one becomes a file of its own, and completing
// then copies. Names in the upload's folder: `data`, `slots` (their size),
// `slot.NUMBER` (empty, says that the slot is whole), `part.NUMBER`.
extension BucketStorage {
    private static let leastSlotSize: Int64 = 5 << 20
    static let dataName = ObjectKey("data")
    private static let slotsName = ObjectKey("slots")

    /// Runs `body` with a place for a part's content.
    ///
    /// `size` is the length of the part where it is known beforehand.
    func withStagedPart<Result, Failure: Error>(
        _ upload: MultipartUpload,
        _ number: Int,
        size: Int64?,
        _ wrap: (StorageError) -> Failure,
        _ body: (StagedPart) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let folder = try mapping(wrap) { () throws(StorageError) in try openUploadFolder(upload.id) }
        if let size, activeUploads.beginSlot(upload.id, number) {
            defer { activeUploads.endSlot(upload.id, number) }
            let slot = try mapping(wrap) { () throws(StorageError) in
                try openSlot(number, size: size, in: folder)
            }
            if let slot { return try body(slot) }
        }
        let staged = try mapping(wrap) { () throws(StorageError) in try stage(expected: size) }
        return try body(StagedPart(number: number, content: staged, offset: nil))
    }

    /// The part's slot, when it is free and the part fits into it.
    private func openSlot(_ number: Int, size: Int64, in folder: OpenFile) throws(StorageError) -> StagedPart? {
        guard size > 0, try storedPart(number, in: folder, dataSize: .max) == nil,
            let (data, slotSize) = try openData(in: folder, makingSlotsOf: size), size <= slotSize
        else { return nil }
        let offset = Int64(number - 1) * slotSize
        let range = ByteRange(offset: offset, count: size)
        return StagedPart(number: number, content: StagedFile(stretch: range, of: data), offset: offset)
    }

    /// The shared file and the size of its slots; the first part that is large enough decides that.
    private func openData(
        in folder: OpenFile,
        makingSlotsOf size: Int64
    ) throws(StorageError) -> (OpenFile, Int64)? {
        let inode = try storing { () throws(SystemError) in try folder.descriptor.status().inode }
        return try keyLocks.withLock(inode) { () throws(StorageError) in
            if let known = try openData(in: folder) { return known }
            guard size >= Self.leastSlotSize else { return nil }
            try writeSlotSize(size, in: folder)
            let file = try storing { () throws(SystemError) in
                try FolderCalls.createFile(Self.dataName, in: folder.descriptor.raw)
            }
            return (file, size)
        }
    }

    /// The shared file and the size of its slots; nil when there is none.
    func openData(in folder: OpenFile) throws(StorageError) -> (OpenFile, Int64)? {
        try storing { () throws(SystemError) -> (OpenFile, Int64)? in
            guard let data = try FolderCalls.open(Self.dataName, beneath: folder.descriptor.raw, O_RDWR),
                let slots = try FolderCalls.open(Self.slotsName, beneath: folder.descriptor.raw, O_RDONLY)
            else { return nil }
            let text = String(decoding: slots.descriptor.prefix(32), as: UTF8.self)
            return Int64(text).map { (data, $0) }
        }
    }

    private func writeSlotSize(_ size: Int64, in folder: OpenFile) throws(StorageError) {
        let staged = try stage()
        try storing { () throws(SystemError) in try staged.file.descriptor.write(Array(String(size).utf8)) }
        try synchronize(staged.file)
        try storing { () throws(SystemError) in try staged.place(as: Self.slotsName, in: folder) }
    }

    /// Makes a received part one of the upload's, durably, in the place of an earlier one of its number.
    ///
    /// Of two that are received at a time the one that is committed last stays.
    func commitPart(
        _ part: StagedPart,
        _ record: ObjectRecord,
        of upload: MultipartUpload
    ) throws(StorageError) {
        let folder = try openUploadFolder(upload.id)
        let slot = Self.slotName(part.number)
        let own = Self.partName(part.number)
        if let offset = part.offset {
            try synchronize(part.content.file)
            var record = record
            record.fields["Slot-Offset"] = String(offset)
            record.fields["Slot-Size"] = String(part.content.size)
            let mark = try stage()
            try seal(mark, record)
            try place(mark, as: slot, insteadOf: own, of: upload, in: folder)
        } else {
            try seal(part.content, record)
            try place(part.content, as: own, insteadOf: slot, of: upload, in: folder)
        }
        try synchronizeFolder(folder)
    }

    /// Writes the record of a finished file and makes both durable.
    private func seal(_ staged: StagedFile, _ record: ObjectRecord) throws(StorageError) {
        var record = record
        record.stamp = try storing { () throws(SystemError) in FileStamp(try staged.file.descriptor.status()) }
        let finished = record
        try storing { () throws(SystemError) in try records.write(finished, to: staged.file.descriptor) }
        try synchronize(staged.file)
    }

    private func place(
        _ staged: StagedFile,
        as name: ObjectKey,
        insteadOf other: ObjectKey,
        of upload: MultipartUpload,
        in folder: OpenFile
    ) throws(StorageError) {
        try activeUploads.withCommit(upload.id) { () throws(StorageError) in
            do throws(SystemError) {
                try staged.place(as: name, in: folder)
            } catch {
                throw error.code == ENOENT ? .noSuchUpload : StorageError(error)
            }
            // A crash before this leaves both: the file then counts, and either is a part that came whole.
            try? FolderCalls.removeFile(other, in: folder.descriptor.raw)
        }
    }

    private static func partName(_ number: Int) -> ObjectKey { ObjectKey("part.\(padded(number, 5))") }
    private static func slotName(_ number: Int) -> ObjectKey { ObjectKey("slot.\(padded(number, 5))") }

    /// The parts of an upload behind a number, in ascending order of their numbers, at most `limit`.
    func parts(
        of upload: MultipartUpload,
        after marker: Int = 0,
        limit: Int = .max
    ) throws(StorageError) -> [StoredPart] {
        let folder = try openUploadFolder(upload.id)
        let entries = try storing { () throws(SystemError) in try FolderCalls.entries(of: folder) }
        let numbers = Set(
            entries.compactMap { entry -> Int? in
                let name = entry.name.string
                return name.hasPrefix("part.") || name.hasPrefix("slot.") ? Int(name.dropFirst(5)) : nil
            }
        )
        let dataSize = try storing { () throws(SystemError) in
            try FolderCalls.status(Self.dataName, in: folder.descriptor.raw)?.size ?? 0
        }
        var parts: [StoredPart] = []
        for number in numbers.sorted() where number > marker && parts.count < limit {
            if let part = try storedPart(number, in: folder, dataSize: dataSize) { parts.append(part) }
        }
        return parts
    }

    /// A part that is there; of a file of its own and a slot the file counts.
    ///
    /// A slot beyond the end of the shared file was cut off by a completion that then failed.
    private func storedPart(
        _ number: Int,
        in folder: OpenFile,
        dataSize: Int64
    ) throws(StorageError) -> StoredPart? {
        if let (record, size) = try partRecord(Self.partName(number), in: folder) {
            return StoredPart(number: number, record: record, size: size, location: .file(Self.partName(number)))
        }
        guard let (record, _) = try partRecord(Self.slotName(number), in: folder),
            let offset = record.fields["Slot-Offset"].flatMap({ Int64($0) }),
            let size = record.fields["Slot-Size"].flatMap({ Int64($0) }), offset + size <= dataSize
        else { return nil }
        return StoredPart(number: number, record: record, size: size, location: .slot(offset: offset))
    }

    private func partRecord(_ name: ObjectKey, in folder: OpenFile) throws(StorageError) -> (ObjectRecord, Int64)? {
        try storing { () throws(SystemError) in
            guard let file = try FolderCalls.open(name, beneath: folder.descriptor.raw, O_RDONLY) else { return nil }
            let status = try file.descriptor.status()
            guard let record = try records.read(file.descriptor, status), record.stamp == FileStamp(status) else {
                return nil
            }
            return (record, status.size)
        }
    }
}
