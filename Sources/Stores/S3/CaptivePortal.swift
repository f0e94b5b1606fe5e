// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import HTTPWire
internal import ObjectStore

/// Recognises the answer of a network that wants a login first, which stands in for the server's.
///
/// Such networks redirect to a page of theirs, or answer with it (RFC 8952, section 1); a server of S3 names each of its
/// answers, and none of those that are not an object's content is a page.
enum CaptivePortal {
    /// How names of fields begin of which a server of S3 sends one with every answer of its own, redirects included.
    private static let marks = ["x-amz", "x-minio"]

    /// The error when an answer is not the server's; `host` is the one that was asked, with its port where it has one.
    static func error(status: Int, fields: HTTPFields, host: String) -> StoreError? {
        if status == 511 { return make("it wants a login (511)") }
        guard !isNamed(fields) else { return nil }
        switch status {
        case 300..<400:
            guard let location = fields["location"], let target = URLParts(location),
                name(target.authority) != name(host)
            else { return nil }
            return make("it leads to \(name(target.authority))")
        // The others have no content that could be a page, whatever type a server gives to nothing.
        case 200, 203, 206:
            // An object may be a page too, of a server that does not name its answers: then it has its tag.
            guard fields["content-type"]?.lowercased().hasPrefix("text/html") == true, fields["etag"] == nil,
                fields["content-length"] != "0"
            else { return nil }
            return make("a page came in place of the server's answer")
        default: return nil
        }
    }

    /// The error when the other side of a secure connection is somebody else, in libcurl's words.
    static func error(insecure message: String) -> StoreError? {
        guard message.contains("target host name") else { return nil }
        return StoreError(.unreachable, "no secure connection: \(message)", code: StoreError.captivePortal)
    }

    private static func isNamed(_ fields: HTTPFields) -> Bool {
        fields.fields.contains { field in
            let name = field.name.lowercased()
            return marks.contains { name.hasPrefix($0) }
        }
    }

    private static func make(_ message: String) -> StoreError {
        StoreError(.unreachable, "the network stands between: \(message)", code: StoreError.captivePortal)
    }

    /// The host without its port, fit for a log.
    private static func name(_ authority: String) -> String {
        let host = authority.lowercased().split(separator: ":", omittingEmptySubsequences: false).first ?? ""
        return String(host.prefix(100))
    }
}
