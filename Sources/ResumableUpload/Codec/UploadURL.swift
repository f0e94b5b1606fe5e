// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Resolving a Location within its origin (RFC 3986, section 5, for http and https).
package enum UploadURL {
    /// The longest URL accepted, in bytes.
    package static let lengthLimit = 4096

    /// The absolute URL `location` means in an answer to `base`; nil when it is malformed or of another origin,
    /// where our credentials must not go.
    package static func resolve(_ location: String, against base: String) -> String? {
        guard location.utf8.count <= lengthLimit, !location.isEmpty,
            location.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
            let base = Parts(base)
        else { return nil }
        if let absolute = Parts(location) {
            return absolute.origin == base.origin ? location.withoutFragment : nil
        }
        if location.hasPrefix("//") {
            let whole = base.scheme + ":" + location
            return Parts(whole)?.origin == base.origin ? whole.withoutFragment : nil
        }
        guard !hasScheme(location) else { return nil }
        if location.hasPrefix("/") { return base.prefix + location.withoutFragment }
        return base.prefix + base.folder + location.withoutFragment
    }

    /// Whether a relative reference begins with a scheme of some other kind.
    private static func hasScheme(_ text: String) -> Bool {
        guard let colon = text.firstIndex(of: ":") else { return false }
        return !text[..<colon].contains { $0 == "/" || $0 == "?" || $0 == "#" }
    }

    /// An http or https URL, split where resolving needs it.
    private struct Parts {
        let scheme: String
        /// Scheme, authority as written.
        let prefix: String
        /// The path up to and including its last slash.
        let folder: String
        /// What two URLs must share: scheme, host in lower case, port.
        let origin: String

        init?(_ text: String) {
            guard let mark = text.range(of: "://") else { return nil }
            scheme = text[..<mark.lowerBound].lowercased()
            guard scheme == "http" || scheme == "https" else { return nil }
            let rest = text[mark.upperBound...]
            let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
            guard !authority.isEmpty, !authority.contains("@") else { return nil }
            prefix = String(text[..<authority.endIndex])
            let path = rest[authority.endIndex...].prefix { $0 != "?" && $0 != "#" }
            folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "/"
            origin = Self.origin(scheme: scheme, authority: authority.lowercased())
        }

        private static func origin(scheme: String, authority: String) -> String {
            let port = scheme == "http" ? ":80" : ":443"
            return scheme + "://" + (authority.hasSuffix(port) ? String(authority.dropLast(port.count)) : authority)
        }
    }
}

extension String {
    fileprivate var withoutFragment: String { String(prefix { $0 != "#" }) }

    /// The range of the first occurrence of an ASCII string, by bytes.
    fileprivate func range(of needle: String) -> Range<String.Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(needle) { return start..<index(start, offsetBy: needle.count) }
            start = index(after: start)
        }
        return nil
    }
}
