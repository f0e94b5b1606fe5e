// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import HTTPWire

/// Where a redirect leads, and whether it may be followed (RFC 9110, section 15.4).
package enum Redirection: Hashable, Sendable {
    /// The answer is no redirect.
    case none
    case follow(WebURL)
    /// Why it is not followed.
    case refuse(String)

    /// How many redirects in a row are followed.
    package static let limit = 10

    /// Judges an answer to a request that was sent to `url`.
    package static func judge(status: Int, location: String?, method: String, url: WebURL) -> Redirection {
        switch status {
        case 301, 302, 303:
            // Clients may turn other methods into GET there, which would ask for something else.
            guard method == "GET" || method == "HEAD" else { return .refuse("\(status) in answer to \(method)") }
        case 307, 308: break
        default: return .none
        }
        guard let location = location.map({ trimmingOptionalWhitespace($0) }), let target = url.resolving(location)
        else { return .refuse("\(status) without a usable Location") }
        if url.origin.scheme == "https", target.origin.scheme != "https" {
            return .refuse("it leads from https to http")
        }
        return .follow(target)
    }
}
