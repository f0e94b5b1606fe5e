// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import HTTPWire
internal import ObjectStore

/// Recognises the answer of a network that wants a login first, which stands in for the server's.
///
/// Such networks redirect to a page of theirs, or answer with it (RFC 8952, section 1); a server of S3 names each of its
/// answers, and none of those that are not an object's content is a page.
enum CaptivePortal {
    /// Fields of which a server of S3 sends one with every answer of its own, redirects included.
    private static let marks = [
        "x-amz-request-id", "x-amz-id-2", "x-amz-bucket-region", "x-amz-error-code", "x-minio-error-code",
    ]

    /// The error when an answer is not the server's; `host` is the one that was asked, with its port where it has one.
    static func error(status: Int, fields: HTTPFields, host: String) -> StoreError? {
        if status == 511 { return make("it wants a login (511)") }
        guard !marks.contains(where: { fields[$0] != nil }) else { return nil }
        switch status {
        case 300..<400:
            guard let location = fields["location"], let target = URLParts(location),
                name(target.authority) != name(host)
            else { return nil }
            return make("it leads to \(name(target.authority))")
        case 200..<300:
            // An object may be a page too, of a server that does not name its answers: then it has its tag.
            guard fields["content-type"]?.lowercased().hasPrefix("text/html") == true, fields["etag"] == nil else {
                return nil
            }
            return make("a page came in place of the server's answer")
        default: return nil
        }
    }

    /// The error when the other side of a secure connection is somebody else, in libcurl's words.
    static func error(insecure message: String) -> StoreError? {
        message.contains("target host name") ? make("the certificate is another host's") : nil
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
