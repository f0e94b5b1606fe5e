// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import HTTPWire
package import ObjectStore
internal import S3Wire

extension S3Store {
    /// Pages of 1,000 uploads that are read at most; those of other keys with the same beginning count too.
    private static let pageLimit = 100

    package func listMultipartUploads(_ key: ObjectKey) throws(StoreError) -> [UploadInProgress] {
        let wanted = client.fullKey(key)
        var found: [String: UploadInProgress] = [:]
        var marker: UploadMarker?
        for _ in 0..<Self.pageLimit {
            let page = try uploads(beginningWith: wanted, after: marker)
            for upload in page.uploads where upload.key == wanted {
                found[upload.uploadID] = UploadInProgress(
                    uploadID: upload.uploadID,
                    initiated: upload.initiated,
                    initiator: upload.initiator
                )
            }
            // Sorted by key, and the key itself comes before all that it begins.
            let isBeyond = page.uploads.last.map { $0.key > wanted } ?? false
            guard page.isTruncated, !isBeyond else { return Array(found.values) }
            guard let next = UploadMarker(after: page), next != marker else { break }
            marker = next
        }
        throw StoreError(.protocolViolation, "the list of uploads does not end")
    }

    private func uploads(
        beginningWith prefix: ObjectKey,
        after marker: UploadMarker?
    ) throws(StoreError) -> ListMultipartUploadsResult {
        var request = S3Request("GET", nil)
        request.query.append("uploads")
        request.query.append("encoding-type", "url")
        request.query.append("prefix", bytes: prefix.bytes)
        if let marker {
            request.query.append("key-marker", bytes: marker.key.bytes)
            if let upload = marker.upload { request.query.append("upload-id-marker", upload) }
        }
        request.answerLimit = 8 << 20
        let response = try client.send(request)
        return try Self.read(response) { root throws(XMLProblem) in try ListMultipartUploadsResult(root) }
    }

    package func serverTime() throws(StoreError) -> Timestamp {
        if let time = client.serverTime { return time }
        try check()
        return client.serverTime ?? client.assumeServerTime()
    }
}

/// Where the next page of uploads begins.
private struct UploadMarker: Equatable {
    let key: ObjectKey
    let upload: String?

    init?(after page: ListMultipartUploadsResult) {
        guard let key = page.nextKeyMarker ?? page.uploads.last?.key, !key.isRoot else { return nil }
        self.key = key
        upload = page.nextUploadIDMarker ?? page.uploads.last?.uploadID
    }
}
