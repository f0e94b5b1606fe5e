// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import HTTPWire
internal import S3Wire

/// Which requests are implemented; all others are refused, so that none becomes a plain read or write of
/// something else: what a client asks for beyond the content is never dropped silently.
struct RequestScope {
    /// What the path names.
    enum Target: Hashable, Sendable {
        case service
        case bucket
        case object
    }

    let method: String
    let target: Target

    init(method: String, target: Target) {
        self.method = method
        self.target = target
    }

    /// The scope of a request in path style.
    init(_ request: HTTPRequest) {
        let names = request.path.dropFirst().split(separator: UInt8(ascii: "/"), maxSplits: 1)
        method = request.method
        target = names.isEmpty ? .service : names.count == 1 ? .bucket : .object
    }

    private var isRead: Bool { method == "GET" || method == "HEAD" }

    /// Throws `NotImplemented` for a request that means more than this server does.
    func check(_ query: URLQuery, _ fields: HTTPFields) throws(S3Error) {
        for item in query.items {
            try check(parameter: item.name)
        }
        if let version = query["versionId"], version != "null" {
            throw S3Error(.notImplemented, "There are no versions here")
        }
        for field in fields.fields {
            try check(field: field.name.lowercased(), field.value)
        }
    }

    // MARK: parameters of the query

    /// Names that choose another resource than the object, the bucket or its listing.
    private static let subresources: Set<String> = [
        "abac", "accelerate", "acl", "analytics", "append", "attributes", "cors", "delete", "encryption",
        "intelligent-tiering", "inventory", "legal-hold", "lifecycle", "location", "logging",
        "metadataConfiguration", "metadataTable", "metrics", "notification", "object-lock", "ownershipControls",
        "partNumber", "policy", "policyStatus", "publicAccessBlock", "renameObject", "replication",
        "requestPayment", "restore", "retention", "select", "session", "tagging", "torrent", "uploadId", "uploads",
        "usage", "versionId", "versioning", "versions", "website",
    ]

    /// Those that are implemented, and for writes all other parameters that have a meaning.
    private var implemented: Set<String> {
        switch (target, method) {
        case (.bucket, "GET"): ["uploads", "location", "versioning"]
        case (.bucket, "POST"): ["delete"]
        case (.object, "GET"): ["uploadId", "versionId"]
        case (.object, "HEAD"): ["versionId"]
        case (.object, "PUT"): ["uploadId", "partNumber"]
        case (.object, "POST"): ["uploads", "uploadId"]
        case (.object, "DELETE"): ["uploadId", "versionId"]
        default: []
        }
    }

    /// Of writes everything must be known; of reads only what would give something else than is asked for.
    private func check(parameter name: String) throws(S3Error) {
        // The parameters of signatures, and the operation's name that some clients add.
        if name == "x-id" || name.lowercased().hasPrefix("x-amz-") || implemented.contains(name) { return }
        if isRead, !Self.subresources.contains(name) { return }
        throw S3Error(.notImplemented, "The parameter \(name) is not implemented here")
    }

    // MARK: fields

    /// Beginnings of the names of fields that would change what is stored or who may have it.
    private static let foreignFields = [
        "x-amz-server-side-encryption", "x-amz-copy-source-server-side-encryption", "x-amz-object-lock-",
        "x-amz-tagging", "x-amz-website-redirect-location", "x-amz-grant-", "x-amz-write-offset-bytes",
        "x-amz-rename-source", "x-amz-if-match-initiated-time",
    ]

    /// Lists of access that say no more than is so: there is one user, who owns everything.
    private static let trueAccess: Set<String> = ["", "private", "bucket-owner-read", "bucket-owner-full-control"]

    private func check(field name: String, _ value: String) throws(S3Error) {
        let isForeign =
            switch name {
            // About tags there are none.
            case "x-amz-tagging-directive", "x-amz-tagging-count": false
            case "x-amz-acl": !Self.trueAccess.contains(value.lowercased())
            case "x-amz-storage-class": !value.isEmpty && value.uppercased() != "STANDARD"
            case "x-amz-bucket-object-lock-enabled": value.lowercased() == "true"
            // On a write it would be a part of the content only (RFC 9110, section 14.5).
            case "content-range": !isRead
            default: Self.foreignFields.contains { name.hasPrefix($0) }
            }
        if isForeign { throw S3Error(.notImplemented, "The field \(name) with this value is not implemented here") }
    }
}
