// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import HTTPWire
internal import S3Wire

extension S3Handler {
    /// ListObjects and ListObjectsV2.
    func listObjects(_ bucket: ObjectKey, _ exchange: S3Exchange) throws(S3Error) {
        let query = exchange.query
        let isV2 = query["list-type"] == "2"
        let token = isV2 ? query["continuation-token"] : nil
        var request = ListingRequest()
        request.prefix = Array((query["prefix"] ?? "").utf8)
        request.delimiter = Array((query["delimiter"] ?? "").utf8)
        request.maxKeys = try Self.count(query, "max-keys")
        let start = isV2 ? query["start-after"] : query["marker"]
        let isContinued = token.map { !$0.isEmpty } ?? false
        request.after = isContinued ? try Self.decodeToken(token ?? "") : Array((start ?? "").utf8)
        let page = try inS3 { () throws(StorageError) in try storage.list(bucket, request) }
        let next = page.isTruncated ? page.items.last?.key : nil
        let startKey = start.map { ObjectKey($0) }
        let paging: ListObjectsResult.Paging =
            isV2
            ? .v2(
                continuationToken: token,
                nextContinuationToken: next.map { Base64.encode($0.bytes) },
                startAfter: startKey
            )
            : .v1(marker: startKey, nextMarker: next)
        exchange.send(xml: try Self.result(bucket, request, page, paging, query).xml)
    }

    private static func result(
        _ bucket: ObjectKey,
        _ request: ListingRequest,
        _ page: ListingPage,
        _ paging: ListObjectsResult.Paging,
        _ query: URLQuery
    ) throws(S3Error) -> ListObjectsResult {
        var result = ListObjectsResult(
            bucket: bucket.string,
            prefix: ObjectKey(bytes: request.prefix),
            delimiter: request.delimiter.isEmpty ? nil : ObjectKey(bytes: request.delimiter),
            maxKeys: request.maxKeys,
            isTruncated: page.isTruncated,
            isURLEncoded: try isURLEncoded(query),
            entries: [],
            commonPrefixes: [],
            paging: paging
        )
        if query["list-type"] != "2" || query["fetch-owner"]?.lowercased() == "true" { result.owner = Self.owner }
        let wantsMetadata = query["list-type"] == "2" && query["metadata"]?.lowercased() == "true"
        var room = wantsMetadata ? metadataLimit : 0
        for item in page.items {
            switch item {
            case .commonPrefix(let prefix):
                result.commonPrefixes.append(prefix)
            case .object(let key, let record, let size):
                result.entries.append(
                    .init(
                        key: key,
                        size: size,
                        entityTag: record.quotedTag,
                        lastModified: record.modified,
                        metadata: metadata(of: record, room: &room)
                    )
                )
            }
        }
        return result
    }

    /// How many bytes of metadata a page of a listing may carry; the rest is asked for by HEAD.
    private static let metadataLimit = 3 << 20

    /// The metadata of a listed object, also where it has none; nil when it does not fit or cannot be written.
    private static func metadata(of record: ObjectRecord, room: inout Int) -> HTTPFields? {
        let size = record.fields.fields.reduce(0) { $0 + 2 * $1.name.utf8.count + 6 * $1.value.utf8.count }
        guard room > size, ListedMetadata.canHold(record.fields) else { return nil }
        room -= size
        return record.fields
    }

    /// The uploads in progress in a bucket.
    func listUploads(_ bucket: ObjectKey, _ exchange: S3Exchange) throws(S3Error) {
        let query = exchange.query
        let prefix = ObjectKey(query["prefix"] ?? "")
        let keyMarker = ObjectKey(query["key-marker"] ?? "")
        let idMarker = query["upload-id-marker"] ?? ""
        if query["delimiter"].map({ !$0.isEmpty }) ?? false {
            throw S3Error(.notImplemented, "A delimiter in the list of uploads is not implemented")
        }
        let limit = try Self.count(query, "max-uploads")
        let all = try inS3 { () throws(StorageError) in try storage.uploadsInProgress(in: bucket) }
        let wanted = all.filter { upload in
            guard upload.key.bytes.starts(with: prefix.bytes) else { return false }
            if keyMarker.isRoot { return true }
            // Uploads of one key are in the order of their identifiers as far as markers go.
            return upload.key > keyMarker || (upload.key == keyMarker && !idMarker.isEmpty && upload.id > idMarker)
        }.sorted { ($0.key, $0.id) < ($1.key, $1.id) }
        var result = ListMultipartUploadsResult(
            bucket: bucket.string,
            uploads: wanted.prefix(limit).map {
                .init(key: $0.key, uploadID: $0.id, initiated: $0.initiated, initiator: Self.owner)
            }
        )
        result.prefix = prefix
        result.keyMarker = keyMarker
        result.uploadIDMarker = idMarker
        result.maxUploads = limit
        result.isURLEncoded = try Self.isURLEncoded(query)
        result.isTruncated = limit > 0 && wanted.count > limit
        if result.isTruncated {
            result.nextKeyMarker = result.uploads.last?.key
            result.nextUploadIDMarker = result.uploads.last?.uploadID
        }
        exchange.send(xml: result.xml)
    }

    /// A count in the query, at most and by default `limit`.
    static func count(_ query: URLQuery, _ name: String, limit: Int = 1000) throws(S3Error) -> Int {
        guard let text = query[name], !text.isEmpty else { return limit }
        guard let value = decimalNumber(text) else { throw S3Error(.invalidArgument, "\(name) is not a count") }
        return Int(min(value, Int64(limit)))
    }

    static func isURLEncoded(_ query: URLQuery) throws(S3Error) -> Bool {
        guard let encoding = query["encoding-type"], !encoding.isEmpty else { return false }
        guard encoding == "url" else { throw S3Error(.invalidArgument, "encoding-type can only be url") }
        return true
    }

    static func decodeToken(_ token: String) throws(S3Error) -> [UInt8] {
        guard let key = Base64.decode(token), !key.isEmpty else {
            throw S3Error(.invalidArgument, "The continuation token is not one of this server")
        }
        return key
    }
}
