// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CurlTransport
internal import HTTPWire
package import ObjectStore
internal import Platform
internal import S3Wire

extension S3Store {
    package func copy(
        _ source: ObjectKey,
        sourceVersion: ObjectVersion,
        to key: ObjectKey,
        metadata: ObjectMetadata?,
        condition: WriteCondition
    ) throws(StoreError) -> ObjectVersion {
        guard try isCapable(\.copy, probeCopy) else {
            throw StoreError(.unsupported, "the server cannot copy objects")
        }
        // Most servers ignore the condition on the source.
        try verify(source, .version(sourceVersion))
        return try conditionally(key, condition, looksFirst: true) { condition throws(StoreError) in
            let result = try sendCopy(source, sourceVersion, to: key, metadata, condition)
            let tag = EntityTag(fieldValue: result.entityTag)
            let current = try status(of: key, cancellation: nil).version
            // HEAD knows the time as later HEADs will tell it; but it may already be somebody else's version.
            if let tag, let mine = current.entityTag, !mine.weaklyMatches(tag) {
                return ObjectVersion(entityTag: tag, size: sourceVersion.size)
            }
            guard current.size == sourceVersion.size else {
                throw StoreError(.temporary, "the copy has \(current.size) bytes instead of \(sourceVersion.size)")
            }
            return current
        }
    }

    private func sendCopy(
        _ source: ObjectKey,
        _ sourceVersion: ObjectVersion?,
        to key: ObjectKey,
        _ metadata: ObjectMetadata?,
        _ condition: WriteCondition
    ) throws(StoreError) -> CopyResult {
        var request = S3Request("PUT", client.fullKey(key))
        if let metadata {
            request.fields = S3Metadata.fields(metadata)
            request.fields.append("x-amz-metadata-directive", "REPLACE")
        }
        addCopySource(source, sourceVersion, to: &request.fields)
        conditions.inspect { $0.add(condition, to: &request.fields) }
        request.body = .bytes([])
        request.urgency = .completion
        request.isRepeatable = false
        let response = try client.send(request)
        return try Self.read(response) { root throws(XMLProblem) in try CopyResult(root, kind: .object) }
    }

    func addCopySource(_ source: ObjectKey, _ version: ObjectVersion?, to fields: inout HTTPFields) {
        let path = Array("/\(client.configuration.bucket)/".utf8) + client.fullKey(source).bytes
        fields.append("x-amz-copy-source", PercentEncoding.encode(path, keepSlash: true))
        guard let tag = version?.entityTag, !tag.isWeak else { return }
        fields.append("x-amz-copy-source-if-match", tag.fieldValue)
    }

    /// Tries a copy on scratch objects, once: a server that does not know it would take the request for a plain
    /// write and empty the target.
    private func probeCopy() throws(StoreError) -> Bool {
        let (source, target) = (scratch(.source), scratch(.target))
        var request = S3Request("PUT", client.fullKey(source))
        request.body = .bytes([0x78])
        _ = try client.send(request)
        var isSupported = false
        do throws(StoreError) {
            _ = try sendCopy(source, nil, to: target, nil, .none)
            isSupported = try status(of: target, cancellation: nil).version.size == 1
        } catch {
            guard error.cause == .unsupported || error.cause == .rejected || error.cause == .notFound else {
                throw error
            }
        }
        for key in [source, target] { try delete(key, condition: .none) }
        return isSupported
    }
}
