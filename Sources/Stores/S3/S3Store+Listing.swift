// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CurlTransport
package import ObjectStore
internal import Platform
internal import S3Wire
internal import Synchronization

/// Which page of which listing.
private struct PageRequest {
    /// With the volume's own.
    let prefix: ObjectKey
    let isRecursive: Bool
    let continuation: String?
}

extension S3Store {
    /// A full page of 1,000 long keys, percent-encoded, is below 4 MiB, with the metadata that S3 allows below 7 MiB.
    private static let pageLimit = 8 << 20

    package func list(
        _ folder: ObjectKey,
        recursive: Bool,
        continuation: String?
    ) throws(StoreError) -> ListingPage {
        try list(folder, recursive: recursive, continuation: continuation) { _ in }
    }

    package func list(
        _ folder: ObjectKey,
        recursive: Bool,
        continuation: String?,
        foretell: (String) -> Void
    ) throws(StoreError) -> ListingPage {
        let prefix = folder.isRoot ? client.fullKey(.root) : client.fullKey(ObjectKey(bytes: folder.bytes + [0x2F]))
        let request = PageRequest(prefix: prefix, isRecursive: recursive, continuation: continuation)
        guard listsMetadata.load(ordering: .relaxed) else { return try page(request, foretell) }
        do throws(StoreError) {
            return try send(request, withMetadata: true, foretell)
        } catch {
            // Only when it works without, the metadata was what the server refused, or what its answer broke at.
            guard Self.mayBeAboutMetadata(error) else { throw error }
            let page = try page(request, foretell)
            Log.info("s3", "listings are asked for without metadata from now on: \(error)")
            listsMetadata.store(false, ordering: .relaxed)
            return page
        }
    }

    private static func mayBeAboutMetadata(_ error: StoreError) -> Bool {
        switch error.cause {
        case .unsupported, .rejected, .protocolViolation, .tooLarge: true
        default: false
        }
    }

    /// A page in the newest version that the server understands.
    private func page(_ request: PageRequest, _ foretell: (String) -> Void) throws(StoreError) -> ListingPage {
        do throws(StoreError) {
            return try send(request, withMetadata: false, foretell)
        } catch {
            let isRefused = error.cause == .unsupported || error.code == "InvalidArgument"
            guard isRefused, request.continuation == nil, listsVersion2.load(ordering: .relaxed) else { throw error }
            listsVersion2.store(false, ordering: .relaxed)
            return try send(request, withMetadata: false, foretell)
        }
    }

    private func send(
        _ page: PageRequest,
        withMetadata: Bool,
        _ foretell: (String) -> Void
    ) throws(StoreError) -> ListingPage {
        let (prefix, continuation) = (page.prefix, page.continuation)
        var request = S3Request("GET", nil)
        request.query = listQuery(prefix, recursive: page.isRecursive, continuation: continuation, limit: 1000)
        if withMetadata, request.query["list-type"] == "2" { request.query.append("metadata", "true") }
        request.answerLimit = Self.pageLimit
        let response = try sendListing(request)
        // Reading a thousand entries takes as long as asking for the next.
        if let token = ListObjectsResult.likelyContinuation(response.body), "2:\(token)" != continuation {
            foretell("2:\(token)")
        }
        let result: ListObjectsResult
        do throws(XMLProblem) {
            result = try ListObjectsResult(try XMLReader.parse(response.body))
        } catch {
            throw StoreError(.protocolViolation, "the listing is not usable: \(error)")
        }
        let page = self.page(result, prefix: prefix)
        // A part of a folder must not pass for the whole, nor may a repeated token have us list for ever.
        if result.isTruncated, page.next == nil || page.next == continuation {
            throw StoreError(.protocolViolation, "the server cut the listing short and does not say how to go on")
        }
        return page
    }

    /// Folders are not found by being listed: what is missing is the bucket, or this is not the server.
    private func sendListing(_ request: S3Request) throws(StoreError) -> TransferResponse {
        do throws(StoreError) {
            return try client.send(request)
        } catch {
            guard error.cause == .notFound else { throw error }
            throw StoreError(.noSuchBucket, error.message, status: error.status, code: error.code)
        }
    }

    /// The query of a listing; a continuation is the version of listing it belongs to and its token or marker.
    func listQuery(_ prefix: ObjectKey, recursive: Bool, continuation: String?, limit: Int) -> URLQuery {
        var query = URLQuery([.init("encoding-type", "url"), .init("max-keys", String(limit))])
        if !prefix.isRoot { query.append("prefix", bytes: prefix.bytes) }
        if !recursive { query.append("delimiter", "/") }
        let isVersion2 = continuation.map { $0.hasPrefix("2:") } ?? listsVersion2.load(ordering: .relaxed)
        if isVersion2 { query.append("list-type", "2") }
        if let place = continuation?.dropFirst(2) {
            if isVersion2 {
                query.append("continuation-token", String(place))
            } else {
                query.append("marker", bytes: PercentEncoding.decode(place) ?? [])
            }
        }
        return query
    }

    private func page(_ result: ListObjectsResult, prefix: ObjectKey) -> ListingPage {
        let base = client.configuration.prefix.bytes.count
        var page = ListingPage(entries: [], folders: [], next: nil)
        for entry in result.entries where entry.key.bytes.starts(with: prefix.bytes) {
            let key = ObjectKey(bytes: Array(entry.key.bytes.dropFirst(base)))
            if key.isRoot || ScratchObject.includes(key) { continue }
            let version = ObjectVersion(
                entityTag: entry.entityTag.flatMap { EntityTag(fieldValue: $0) },
                size: entry.size,
                lastModified: entry.lastModified.map { Timestamp(seconds: $0.seconds) }
            )
            let metadata = entry.metadata.map { S3Metadata.read($0) }
            page.entries.append(.init(key: key, version: version, metadata: metadata))
        }
        for folder in result.commonPrefixes
        where folder.bytes.starts(with: prefix.bytes) && folder.bytes.count > prefix.bytes.count {
            var bytes = Array(folder.bytes.dropFirst(base))
            if bytes.last == 0x2F { bytes.removeLast() }
            if ScratchObject.includes(ObjectKey(bytes: bytes)) { continue }
            page.folders.append(ObjectKey(bytes: bytes))
        }
        if let next = result.next {
            if case .v2 = result.paging { page.next = "2:\(next)" } else { page.next = "1:\(next)" }
        }
        return page
    }
}
