// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import CurlTransport
internal import Digests
package import HTTPWire
package import ObjectStore
internal import Platform
internal import S3Wire
internal import Synchronization

/// A bucket of an S3-compatible server.
///
/// What the server can do is learned from its answers, never assumed: servers
/// answer 200 to requests they do not understand.
package final class S3Store: ObjectStore {
    let client: S3Client
    private let known = Lock(StoreCapabilities())
    let conditions = Monitor(S3Conditions())
    /// The capabilities that are being found out on scratch objects just now.
    private let probing = Monitor(Set<WritableKeyPath<StoreCapabilities, Bool?>>())
    /// Whether scratch objects of an earlier process are cleared away.
    let clearing: Monitor<Clearing>
    /// Whether the server understands ListObjectsV2.
    let listsVersion2 = Atomic(true)
    /// Whether listings are asked for with metadata: until the server refuses that, and never of Amazon, which would
    /// ignore it.
    let listsMetadata: Atomic<Bool>
    /// Whether an entity tag was seen that is the MD5 of what was sent.
    let tagsAreDigests = Atomic(false)
    /// What is told of any object, as far as that was found out.
    let unprompted = Monitor(Unprompted.unknown)
    /// How many deletions under a condition were asked for.
    let deletions = Atomic(0)

    /// Throws when the endpoint is not a URL; nothing is sent yet.
    package init(
        configuration: S3StoreConfiguration,
        credentials: any CredentialsProvider,
        transport: CurlTransport
    ) throws(StoreError) {
        client = try S3Client(configuration, credentials: credentials, transport: transport)
        clearing = Self.clearing(configuration)
        listsMetadata = Atomic(!client.endpoint.isAmazon)
    }

    package var capabilities: StoreCapabilities { known.withLock { $0 } }

    func learn(_ change: (inout StoreCapabilities) -> Void) {
        known.withLock { change(&$0) }
    }

    /// Whether the server can do a thing: what is known, else what `probe` finds out, which runs once at a time.
    func isCapable(
        _ capability: sending WritableKeyPath<StoreCapabilities, Bool?>,
        _ probe: () throws(StoreError) -> Bool
    ) throws(StoreError) -> Bool {
        let known: Bool? =
            probing.wait { running in
                if let known = self.capabilities[keyPath: capability] { return .some(known) }
                return running.insert(capability).inserted ? .some(nil) : nil
            } ?? nil
        if let known { return known }
        defer { _ = probing.update { $0.remove(capability) } }
        try clearScratch()
        let isCapable = try probe()
        learn { $0[keyPath: capability] = isCapable }
        return isCapable
    }

    package func learned(_ support: StoreCapabilities.ResumableSupport) {
        learn { $0.resumableUpload = support }
    }

    package func check(attempts: Int) throws(StoreError) {
        var request = S3Request("GET", nil)
        request.attempts = attempts
        request.query = listQuery(client.configuration.prefix, recursive: true, continuation: nil, limit: 1)
        do throws(StoreError) {
            _ = try client.send(request)
        } catch {
            // Without its own page of errors some servers answer 404 for a missing bucket.
            guard error.cause == .notFound else { throw error }
            throw StoreError(
                .noSuchBucket,
                "no such bucket: \(client.configuration.bucket)",
                status: error.status,
                code: error.code
            )
        }
    }

    package func status(
        of key: ObjectKey,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> ObjectStatus {
        let response = try client.send(S3Request("HEAD", client.fullKey(key)), cancellation: cancellation)
        return try Self.status(response.fields)
    }

    /// What the fields of an answer about an object tell.
    static func status(_ fields: HTTPFields) throws(StoreError) -> ObjectStatus {
        guard let size = fields.contentLength else {
            throw StoreError(.protocolViolation, "the answer to HEAD has no usable Content-Length")
        }
        let version = ObjectVersion(entityTag: fields.entityTag, size: size, lastModified: fields.lastModified)
        return ObjectStatus(version: version, metadata: S3Metadata.read(fields), isEncrypted: isEncrypted(fields))
    }

    /// With keys that are the server's own (`AES256`) a tag is the MD5 of the bytes all the same.
    private static func isEncrypted(_ fields: HTTPFields) -> Bool {
        if fields["x-amz-server-side-encryption-customer-algorithm"] != nil { return true }
        return fields["x-amz-server-side-encryption"].map { $0 != "AES256" } ?? false
    }

    package func fetch(
        _ key: ObjectKey,
        version: ObjectVersion,
        range: ByteRange,
        into sink: any RangeSink
    ) -> any RangeFetch {
        let fetch = S3RangeFetch(client, key: client.fullKey(key), version: version, range: range, sink: sink)
        fetch.begin()
        return fetch
    }

    package func creationFields(metadata: ObjectMetadata, condition: WriteCondition) -> HTTPFields {
        var fields = S3Metadata.fields(metadata)
        conditions.inspect { $0.add(condition, to: &fields) }
        return fields
    }
}
