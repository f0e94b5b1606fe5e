// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CurlTransport
internal import Digests
internal import HTTPWire
package import ObjectStore
internal import Platform
internal import S3Wire

extension S3Store {
    package func createMultipartUpload(
        _ key: ObjectKey,
        metadata: ObjectMetadata
    ) throws(StoreError) -> String {
        var request = S3Request("POST", client.fullKey(key))
        request.query.append("uploads")
        request.fields = S3Metadata.fields(metadata)
        request.body = .bytes([])
        // A repetition would leave an upload behind that nobody knows.
        request.isRepeatable = false
        do throws(StoreError) {
            let response = try client.send(request)
            let result = try Self.read(response) { root throws(XMLProblem) in try CreateMultipartUploadResult(root) }
            learn { $0.multipart = true }
            return result.uploadID
        } catch {
            if error.cause == .unsupported { learn { $0.multipart = false } }
            throw error
        }
    }

    package func uploadPart(
        _ key: ObjectKey,
        uploadID: String,
        number: Int,
        body: UploadBody,
        md5: [UInt8],
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> String {
        var request = partRequest(key, uploadID, number)
        request.fields.append("Content-MD5", Base64.encode(md5))
        request.body = body.transferBody
        request.urgency = .upload
        // A part whose answer was lost may be there: whoever asked for it lists the parts before sending it again.
        request.isRepeatable = false
        let response = try client.send(request, progress: progress, cancellation: cancellation)
        try checkTag(response.fields, md5: md5)
        guard let tag = response.fields["etag"], !tag.isEmpty else {
            throw StoreError(.protocolViolation, "the answer to part \(number) has no entity tag")
        }
        return tag
    }

    package func copyPart(
        _ key: ObjectKey,
        uploadID: String,
        number: Int,
        source: ObjectKey,
        sourceVersion: ObjectVersion,
        range: ByteRange
    ) throws(StoreError) -> String {
        if capabilities.partCopy == false { throw StoreError(.unsupported, "the server cannot copy parts") }
        try verifySource(source, sourceVersion)
        var request = partRequest(key, uploadID, number)
        addCopySource(source, sourceVersion, to: &request.fields)
        request.fields.append("x-amz-copy-source-range", RangeField.value(for: range))
        request.body = .bytes([])
        request.urgency = .completion
        do throws(StoreError) {
            let response = try client.send(request)
            let result = try Self.read(response) { root throws(XMLProblem) in try CopyResult(root, kind: .part) }
            learn { $0.partCopy = true }
            return result.entityTag
        } catch {
            if error.cause == .unsupported { learn { $0.partCopy = false } }
            throw Self.asCopyError(error)
        }
    }

    /// Throws `.preconditionFailed` unless the source is there in that version; most servers ignore the condition.
    private func verifySource(_ source: ObjectKey, _ version: ObjectVersion) throws(StoreError) {
        do throws(StoreError) {
            try verify(source, .version(version))
        } catch {
            throw Self.asCopyError(error)
        }
    }

    /// Without its source a copy fails for the same reason as with another one; whatever else a server has against it,
    /// the bytes can be sent instead.
    private static func asCopyError(_ error: StoreError) -> StoreError {
        switch error.cause {
        case .notFound: StoreError(.preconditionFailed, error.message, status: error.status, code: error.code)
        case .rejected, .tooLarge, .protocolViolation, .forbidden:
            StoreError(.unsupported, error.message, status: error.status, code: error.code)
        default: error
        }
    }

    private func partRequest(_ key: ObjectKey, _ uploadID: String, _ number: Int) -> S3Request {
        var request = S3Request("PUT", client.fullKey(key))
        request.query.append("partNumber", String(number))
        request.query.append("uploadId", uploadID)
        return request
    }

    package func listParts(_ key: ObjectKey, uploadID: String) throws(StoreError) -> [UploadedPart] {
        var parts: [Int: UploadedPart] = [:]
        var marker: Int?
        // 10,000 parts are ten pages; a server with smaller pages may need more.
        for _ in 0..<200 {
            var request = S3Request("GET", client.fullKey(key))
            request.query.append("uploadId", uploadID)
            request.query.append("max-parts", "1000")
            if let marker { request.query.append("part-number-marker", String(marker)) }
            let result: ListPartsResult
            do throws(StoreError) {
                let response = try client.send(request)
                result = try Self.read(response) { root throws(XMLProblem) in try ListPartsResult(root) }
            } catch {
                throw Self.asUploadError(error)
            }
            for part in result.parts {
                parts[part.number] = UploadedPart(number: part.number, size: part.size, entityTag: part.entityTag)
            }
            guard let next = result.next else { return parts.values.sorted { $0.number < $1.number } }
            guard next > marker ?? 0 else { break }
            marker = next
        }
        throw StoreError(.protocolViolation, "the list of parts does not end")
    }

    package func completeMultipartUpload(
        _ key: ObjectKey,
        uploadID: String,
        parts: [UploadedPart],
        condition: WriteCondition
    ) throws(StoreError) -> ObjectVersion {
        let document = CompleteMultipartUploadRequest(
            parts: parts.map { .init(number: $0.number, entityTag: $0.entityTag) }
        )
        // Some servers enforce conditions on PUT and ignore them here.
        return try conditionally(key, condition, of: .completion, looksFirst: true) { condition throws(StoreError) in
            var request = S3Request("POST", client.fullKey(key))
            request.query.append("uploadId", uploadID)
            request.fields.append("Content-Type", "application/xml")
            conditions.inspect { $0.add(condition, to: &request.fields) }
            request.body = .bytes(document.xml)
            request.urgency = .completion
            request.isRepeatable = false
            do throws(StoreError) {
                let response = try client.send(request)
                // Whether it was done has to be looked up when the answer does not say.
                _ = try Self.read(response, whenEmpty: .temporary) { root throws(XMLProblem) in
                    try CompleteMultipartUploadResult(root)
                }
            } catch {
                throw Self.asUploadError(error)
            }
            // The tag in the answer is empty at one server, and another's than HEAD's at a second.
            return try status(of: key, cancellation: nil).version
        }
    }

    package func abortMultipartUpload(_ key: ObjectKey, uploadID: String) throws(StoreError) {
        var request = S3Request("DELETE", client.fullKey(key))
        request.query.append("uploadId", uploadID)
        do throws(StoreError) {
            _ = try client.send(request)
        } catch {
            if error.cause != .noSuchUpload, error.cause != .notFound { throw error }
        }
    }

    /// A 404 about an upload without a code, or with that of a key, as some servers give for one that is over.
    private static func asUploadError(_ error: StoreError) -> StoreError {
        guard error.cause == .notFound else { return error }
        return StoreError(.noSuchUpload, error.message, status: error.status, code: error.code)
    }

    // MARK: Answers

    /// Reads the document of a 200 answer, which may be an error all the same: S3 sends 200 before it knows.
    static func read<Document>(
        _ response: TransferResponse,
        whenEmpty: StoreError.Cause = .unsupported,
        _ make: (XMLElement) throws(XMLProblem) -> Document
    ) throws(StoreError) -> Document {
        let blank: Set<UInt8> = [0x20, 0x09, 0x0A, 0x0D]
        // No document at all is how servers answer that took the request for a plain write.
        if response.body.allSatisfy({ blank.contains($0) }) {
            throw StoreError(whenEmpty, "the server answered without a result", status: response.status)
        }
        let root: XMLElement
        do throws(XMLProblem) {
            root = try XMLReader.parse(response.body)
        } catch {
            throw StoreError(.protocolViolation, "the answer is not usable: \(error)", status: response.status)
        }
        if let error = S3Error(root) {
            let status = error.known == nil ? 500 : error.status
            throw S3ErrorMapping.error(status: status, fields: response.fields, body: response.body)
        }
        do throws(XMLProblem) {
            return try make(root)
        } catch {
            throw StoreError(.protocolViolation, "the answer is not usable: \(error)", status: response.status)
        }
    }
}
