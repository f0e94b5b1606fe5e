// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CurlTransport
internal import Digests
internal import HTTPWire
package import ObjectStore
internal import Platform
internal import S3Wire
internal import Synchronization

extension S3Store {
    package func put(
        _ key: ObjectKey,
        body: UploadBody,
        metadata: ObjectMetadata,
        condition: WriteCondition,
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> ObjectVersion {
        if key.bytes.last == 0x2F, try !isCapable(\.folderMarkers, findOutAboutFolderMarkers) {
            throw StoreError(.unsupported, "the server cannot keep empty folders")
        }
        let md5 = try Self.md5(of: body)
        return try conditionally(key, condition, of: .object) { condition throws(StoreError) in
            var request = S3Request("PUT", client.fullKey(key))
            request.fields = S3Metadata.fields(metadata)
            request.fields.append("Content-MD5", Base64.encode(md5))
            conditions.inspect { $0.add(condition, to: &request.fields) }
            request.body = body.transferBody
            request.urgency = .upload
            // Of a repetition the first may be carried out long after: who asked has to know that it is in doubt.
            request.isRepeatable = false
            let response = try client.send(request, progress: progress, cancellation: cancellation)
            try checkTag(response.fields, md5: md5)
            guard let tag = response.fields.entityTag else { return try status(of: key, cancellation: nil).version }
            // Nothing tells when it was stored, which was before the answer: what a listing has of later has other metadata.
            return ObjectVersion(entityTag: tag, size: body.range.count, lastModified: response.fields.date)
        }
    }

    private func findOutAboutFolderMarkers() throws(StoreError) -> Bool {
        let isSupported = try probeFolderMarkers()
        if !isSupported { Log.notice("s3", "the server cannot keep folders that hold no file") }
        return isSupported
    }

    /// Tries a folder marker on a scratch name, once.
    ///
    /// rclone makes a file of it, which then keeps every object of the folder from being written.
    private func probeFolderMarkers() throws(StoreError) -> Bool {
        let name = scratch(.folder)
        let marker = ObjectKey(bytes: name.bytes + [0x2F])
        var request = S3Request("PUT", client.fullKey(marker))
        request.body = .bytes([])
        do throws(StoreError) {
            _ = try client.send(request)
        } catch {
            guard error.cause == .invalidKey || error.cause == .rejected || error.cause == .unsupported else {
                throw error
            }
            return false
        }
        let isSupported = try currentVersion(name) == nil
        try delete(isSupported ? marker : name, condition: .none)
        return isSupported
    }

    /// Compares an answer's entity tag with the MD5 of what was sent, where tags are MD5s at this server.
    ///
    /// That is learned: a server whose tag once was the MD5 and now is another has stored something else.
    func checkTag(_ fields: HTTPFields, md5: [UInt8]) throws(StoreError) {
        guard let tag = fields.entityTag?.opaque, let value = Hexadecimal.decode(tag), value.count == 16,
            fields["x-amz-server-side-encryption"] == nil,
            fields["x-amz-server-side-encryption-customer-algorithm"] == nil
        else { return }
        if value == md5 {
            tagsAreDigests.store(true, ordering: .relaxed)
        } else if tagsAreDigests.load(ordering: .relaxed) {
            throw StoreError(.corrupted, "the remote stored something else than was sent (entity tag \(tag))")
        }
    }

    /// The MD5 of what is to be sent.
    static func md5(of body: UploadBody) throws(StoreError) -> [UInt8] {
        let digest = Digest(.md5)
        let file = CheckedReader(body.descriptor, body.check)
        var buffer = [UInt8](repeating: 0, count: Int(min(1 << 20, max(1, body.range.count))))
        var position = body.range.lower
        while position < body.range.upper {
            let count = Int(min(Int64(buffer.count), body.range.upper - position))
            let isRead = buffer.withUnsafeMutableBytes { buffer in
                let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
                guard (try? file.read(into: piece, at: position)) != nil else { return false }
                digest.update(UnsafeRawBufferPointer(piece))
                return true
            }
            guard isRead else {
                throw StoreError(.localInput, "the data to send cannot be read at byte \(position)")
            }
            position += Int64(count)
        }
        return digest.finalize()
    }
}

extension UploadBody {
    /// The body as the transport takes it.
    var transferBody: TransferBody {
        range.isEmpty ? .bytes([]) : .file(descriptor: descriptor, range: range, check: check)
    }
}
