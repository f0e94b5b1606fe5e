// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What became of one request that went through the proxy.
package struct RequestRecord: Sendable {
    package let method: String
    package let path: String
    package let query: String
    package let kind: RequestKind
    /// The content bytes of the request that reached the proxy.
    package var requestBytes: Int64 = 0
    /// The content bytes of the response that went to the client.
    package var responseBytes: Int64 = 0
    /// The status the upstream answered, nil when it did not.
    package var upstreamStatus: Int?
    /// The status the client was sent, nil when it was sent none.
    package var clientStatus: Int?

    package init(_ head: MessageHead) {
        method = head.method
        path = head.path
        query = head.query
        kind = RequestKind(head)
    }
}

/// What a request is for, in S3 and resumable uploads.
package struct RequestKind: Sendable, Hashable, CustomStringConvertible {
    package let description: String

    package init(_ head: MessageHead) {
        description = "\(head.method) \(Self.noun(head))"
    }

    private static func noun(_ head: MessageHead) -> String {
        let isCopy = head.value(of: "x-amz-copy-source") != nil
        let names = Set(head.query.split(separator: "&").map { String($0.prefix { $0 != "=" }) })
        if names.contains("partNumber") { return isCopy ? "part-copy" : "part" }
        if names.contains("uploadId") { return "upload" }
        if names.contains("uploads") { return "uploads" }
        if names.contains("delete") { return "delete" }
        if head.method == "PATCH" { return "append" }
        if head.method == "GET", names.contains("list-type") || names.contains("prefix") { return "list" }
        return isCopy ? "copy" : "object"
    }
}

/// Sums over the requests of one kind.
package struct RequestTotals: Sendable, Hashable {
    package var requests = 0
    package var requestBytes: Int64 = 0
    package var responseBytes: Int64 = 0
}
