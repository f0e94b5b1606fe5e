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
        let looksFirst = !checks(condition, source == key, sourceVersion)
        if looksFirst { try verify(source, .version(sourceVersion)) }
        return try conditionally(key, condition, of: .copy, looksFirst: looksFirst) { condition throws(StoreError) in
            let result = try sendCopy(source, sourceVersion, to: key, metadata, condition)
            return try version(of: key, copiedFrom: sourceVersion, result)
        }
    }

    /// Whether the server itself refuses a copy where something does not hold of what it is conditional on.
    private func checks(_ condition: WriteCondition, _ isOntoItself: Bool, _ source: ObjectVersion) -> Bool {
        guard capabilities.conditionalCopies == true, let tag = source.entityTag, !tag.isWeak else { return false }
        return switch condition {
        case .none, .absent: true
        // Onto itself the condition on the source is the one on the target; else a refusal would not tell which it was.
        case .version(let target): isOntoItself && target == source
        }
    }

    /// The version that a copy has become.
    private func version(
        of key: ObjectKey,
        copiedFrom source: ObjectVersion,
        _ result: CopyResult
    ) throws(StoreError) -> ObjectVersion {
        let tag = EntityTag(fieldValue: result.entityTag)
        // The same tag is the same content: nothing is left to ask.
        if let tag, !tag.isWeak, tag == source.entityTag, let time = result.lastModified {
            return ObjectVersion(entityTag: tag, size: source.size, lastModified: Timestamp(seconds: time.seconds))
        }
        let current = try status(of: key, cancellation: nil).version
        // HEAD knows the time as later HEADs will tell it; but it may already be somebody else's version.
        if let tag, let mine = current.entityTag, !mine.weaklyMatches(tag) {
            return ObjectVersion(entityTag: tag, size: source.size)
        }
        guard current.size == source.size else {
            throw StoreError(.temporary, "the copy has \(current.size) bytes instead of \(source.size)")
        }
        return current
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
        try putScratch(source)
        var isSupported = false
        do throws(StoreError) {
            _ = try sendCopy(source, nil, to: target, nil, .none)
            isSupported = try status(of: target, cancellation: nil).version.size == 1
        } catch {
            guard error.cause == .unsupported || error.cause == .rejected || error.cause == .notFound else {
                throw error
            }
        }
        if isSupported { try probeConditionalCopies(source, target) }
        for key in [source, target] { try delete(key, condition: .none) }
        return isSupported
    }

    /// Tries copies of a version that there is not, and onto an object that must not exist: a server that refuses both
    /// need not be asked about either before each copy.
    private func probeConditionalCopies(_ source: ObjectKey, _ target: ObjectKey) throws(StoreError) {
        let another = ObjectVersion(entityTag: Self.impossibleTag, size: 1)
        var isComplete = try isRefused { () throws(StoreError) in
            _ = try sendCopy(source, another, to: target, nil, .none)
        }
        if isComplete {
            isComplete = try isRefused { () throws(StoreError) in
                _ = try sendCopy(source, nil, to: target, nil, .absent)
            }
        }
        learn { $0.conditionalCopies = isComplete }
    }
}
