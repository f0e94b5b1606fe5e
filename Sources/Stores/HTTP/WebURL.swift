// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import S3Wire

/// An absolute http or https URL without user, password or fragment, taken apart.
package struct WebURL: Hashable, Sendable {
    /// Scheme, host and port: what credentials belong to.
    package struct Origin: Hashable, Sendable {
        /// `http` or `https`.
        package let scheme: String
        /// Host with its port unless that is the scheme's own; lower case.
        package let authority: String
    }

    package let origin: Origin
    /// Percent-encoded, begins with `/`.
    package let path: String
    /// Without `?`; nil when there is none.
    package let query: String?

    package init(origin: Origin, path: String, query: String? = nil) {
        self.origin = origin
        self.path = path
        self.query = query
    }

    /// Reads an absolute URL; nil for other schemes, user information, spaces, control and non-ASCII characters.
    package init?(_ text: String) {
        guard text.utf8.count <= 8_192, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != 0x5C }),
            let parts = URLParts(text), Self.isAuthority(parts.authority)
        else { return nil }
        let origin = Origin(scheme: parts.scheme, authority: parts.authority)
        self.init(origin: origin, path: parts.path, query: parts.query)
    }

    /// The host's name without its port, an IPv6 address without its brackets.
    package var host: String {
        let authority = origin.authority
        if authority.hasPrefix("[") { return String(authority.dropFirst().prefix { $0 != "]" }) }
        return String(authority.prefix { $0 != ":" })
    }

    /// The URL as text.
    package var text: String {
        "\(origin.scheme)://\(origin.authority)\(path)" + (query.map { "?\($0)" } ?? "")
    }

    /// The URL that a reference in a document or a Location field means here (RFC 3986, section 5.2).
    ///
    /// nil for what no ``WebURL`` can be. Dot segments are resolved; the fragment is dropped.
    package func resolving(_ reference: String) -> WebURL? {
        let reference = String(reference.prefix { $0 != "#" })
        if reference.isEmpty { return self }
        if reference.hasPrefix("//") { return WebURL("\(origin.scheme):\(reference)")?.normalized }
        if Self.hasScheme(reference) { return WebURL(reference)?.normalized }
        let base = "\(origin.scheme)://\(origin.authority)"
        if reference.hasPrefix("/") { return WebURL(base + reference)?.normalized }
        if reference.hasPrefix("?") { return WebURL(base + path + reference) }
        let folder = path.lastIndex(of: "/").map { path[...$0] } ?? "/"
        return WebURL(base + folder + reference)?.normalized
    }

    /// The URL of a decoded path below this one, which ends with a slash.
    package func appending(_ path: some Sequence<UInt8>) -> WebURL {
        WebURL(origin: origin, path: self.path + PercentEncoding.encode(path, keepSlash: true))
    }

    private var normalized: WebURL {
        WebURL(origin: origin, path: Self.withoutDotSegments(path), query: query)
    }

    private static func withoutDotSegments(_ path: String) -> String {
        var kept: [Substring] = []
        let segments = path.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            switch segment {
            case ".", "..":
                if segment == "..", !kept.isEmpty { kept.removeLast() }
                if index == segments.count - 1 { kept.append("") }
            default: kept.append(segment)
            }
        }
        return "/" + kept.joined(separator: "/")
    }

    /// Whether a reference begins with `name:`, as absolute ones do.
    private static func hasScheme(_ reference: String) -> Bool {
        guard let end = reference.firstIndex(where: { ":/?".contains($0) }), reference[end] == ":" else { return false }
        return reference[..<end].utf8.allSatisfy { isLetterOrDigit($0) || $0 == 0x2B || $0 == 0x2D || $0 == 0x2E }
    }

    /// Letters, digits, dots, hyphens, and the colons and brackets of ports and IPv6 addresses.
    private static func isAuthority(_ text: String) -> Bool {
        !text.hasPrefix(":")
            && text.utf8.allSatisfy { isLetterOrDigit($0) || [0x2D, 0x2E, 0x3A, 0x5B, 0x5D, 0x5F].contains($0) }
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: false
        }
    }
}
