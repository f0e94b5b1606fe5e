// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import ObjectStore
internal import S3Wire

/// Makes the URLs of a bucket and its objects.
struct S3Endpoint: Sendable {
    let scheme: String
    /// The Host field: the port only when it is not the scheme's own.
    let host: String
    /// What comes before the key: `/`, `/bucket/` or `/path/bucket/`; decoded.
    let basePath: [UInt8]
    /// Whether it is Amazon's own service.
    let isAmazon: Bool

    init(_ configuration: S3StoreConfiguration) throws(StoreError) {
        let isAmazon = configuration.endpoint == nil
        let text = configuration.endpoint ?? "https://s3.\(configuration.region).amazonaws.com"
        guard let url = URLParts(text), url.query == nil, !url.authority.isEmpty else {
            throw StoreError(.invalidKey, "the endpoint \(text) is not an http or https URL")
        }
        scheme = url.scheme
        let name = url.authority.prefix { $0 != ":" }
        self.isAmazon = name.hasSuffix(".amazonaws.com") || name.hasSuffix(".amazonaws.com.cn")
        let path = PercentEncoding.decode(url.path).map { $0.last == 0x2F ? $0 : $0 + [0x2F] } ?? [0x2F]
        if configuration.isPathStyle ?? !isAmazon {
            host = url.authority
            basePath = path + Array(configuration.bucket.utf8) + [0x2F]
        } else {
            host = "\(configuration.bucket).\(url.authority)"
            basePath = path
        }
    }

    /// The decoded path of a full key; nil is the bucket itself.
    func path(_ key: ObjectKey?) -> [UInt8] {
        // Path-style servers know the bucket without its slash.
        guard let key else { return basePath.count > 1 ? basePath.dropLast() : basePath }
        return basePath + key.bytes
    }

    /// The URL of a decoded path with a query.
    func url(path: [UInt8], query: URLQuery) -> String {
        let encoded = "\(scheme)://\(host)\(PercentEncoding.encode(path, keepSlash: true))"
        return query.items.isEmpty ? encoded : "\(encoded)?\(query.canonical)"
    }
}

/// The parts of an absolute http or https URL.
struct URLParts: Hashable, Sendable {
    /// `http` or `https`.
    let scheme: String
    /// Host with its port unless that is the scheme's own; lower case.
    let authority: String
    /// Percent-encoded, at least `/`.
    let path: String
    /// Without `?`.
    let query: String?

    init?(_ text: String) {
        guard let separator = text.firstRange(of: "://") else { return nil }
        scheme = text[..<separator.lowerBound].lowercased()
        let defaultPort: String
        switch scheme {
        case "http": defaultPort = ":80"
        case "https": defaultPort = ":443"
        default: return nil
        }
        let rest = text[separator.upperBound...].prefix { $0 != "#" }
        var authority = rest.prefix { $0 != "/" && $0 != "?" }.lowercased()
        if authority.hasSuffix(defaultPort) { authority.removeLast(defaultPort.utf8.count) }
        guard !authority.isEmpty, !authority.contains("@") else { return nil }
        self.authority = authority
        let target = rest.drop { $0 != "/" && $0 != "?" }
        let path = target.prefix { $0 != "?" }
        self.path = path.isEmpty ? "/" : String(path)
        query = target.firstIndex(of: "?").map { String(target[target.index(after: $0)...]) }
    }
}
