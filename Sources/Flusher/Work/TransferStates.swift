// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import ResumableUpload

internal import struct Journal.Transfer
internal import struct Journal.TransferPart

extension Transfer {
    /// Bytes of the content that the server copies from what it has, and that are not sent.
    var copiedBytes: Int64 {
        composition.flatMap { PartComposition(encoded: $0, size: size) }?.copiedBytes ?? 0
    }
}

extension MultipartState {
    /// What the journal knows of a multipart upload; nil when none has begun.
    init?(_ transfer: Transfer, _ parts: [TransferPart]) {
        guard transfer.method == .multipart, let upload = transfer.upload else { return nil }
        self.init(
            uploadID: upload,
            partSize: transfer.partSize,
            composition: transfer.composition.flatMap { PartComposition(encoded: $0, size: transfer.size) },
            parts: parts.map {
                Part(number: Int($0.number), size: $0.size, md5: $0.digest, entityTag: $0.entityTag)
            }
        )
    }
}

extension ResumableUploadState {
    /// What the journal knows of a resumable upload; nil when none has begun.
    init?(_ transfer: Transfer) {
        guard transfer.method == .resumable, let upload = transfer.upload,
            let version = InteropVersion(rawValue: Int(transfer.interopVersion))
        else { return nil }
        self.init(resource: upload, version: version, offset: transfer.acknowledged, length: transfer.size)
    }
}
