// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import Platform
internal import S3Wire

/// Decides on resumable uploads as the authenticator does, and whether their target can ever take them: that is
/// said before the content is sent, not when it is complete.
struct UploadAuthorizer: HTTPRequestAuthorizer {
    let authenticator: S3Authenticator
    let storage: BucketStorage

    func refusal(of request: HTTPRequest) -> HTTPAnswer? {
        if let refusal = authenticator.refusal(of: request) { return refusal }
        guard !request.rawPath.utf8.starts(with: ResumableUploadHandler.pathPrefix.utf8) else { return nil }
        do throws(S3Error) {
            try checkTarget(request)
            return nil
        } catch {
            return error.answer(to: request)
        }
    }

    func promisedDigest(of request: HTTPRequest) -> [UInt8]? { authenticator.promisedDigest(of: request) }

    private func checkTarget(_ request: HTTPRequest) throws(S3Error) {
        let path = request.path.dropFirst()
        guard let slash = path.firstIndex(of: UInt8(ascii: "/")), slash + 1 < path.endIndex else {
            // A document about the bucket is content as well.
            if request.method == "POST", !request.rawQuery.isEmpty { return }
            throw S3Error(.invalidRequest, "Content can be uploaded to a key in a bucket only")
        }
        let bucket = ObjectKey(bytes: Array(path[..<slash]))
        let key = ObjectKey(bytes: Array(path[(slash + 1)...]))
        try inS3 { () throws(StorageError) in
            _ = try ObjectPath(bucket: bucket, key: key)
            _ = try storage.openBucket(bucket)
        }
    }
}
