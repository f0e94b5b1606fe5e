// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Digests
package import HTTPWire

/// A request in the one form that both sides sign (AWS Signature Version 4, "canonical request").
package struct CanonicalRequest: Hashable, Sendable {
    /// The values of `x-amz-content-sha256` that are not a digest.
    package static let unsignedPayload = "UNSIGNED-PAYLOAD"
    package static let emptyPayload = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    static let algorithm = "AWS4-HMAC-SHA256"

    package let text: String
    /// The signed names, lower case, sorted and joined with `;`.
    package let signedHeaders: String

    /// Composes the form.
    ///
    /// `path` is decoded; `signing` names the headers in lower case.
    ///
    /// The path is encoded once and not normalised: S3 keys may hold `//` and `..`.
    package init(
        method: String,
        path: [UInt8],
        query: URLQuery,
        fields: HTTPFields,
        signing names: [String],
        payloadHash: String
    ) {
        let sorted = Set(names).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        signedHeaders = sorted.joined(separator: ";")
        var lines = [method, PercentEncoding.encode(path, keepSlash: true), query.canonical]
        for name in sorted {
            lines.append("\(name):\(fields.values(name).map(Self.collapsingSpaces).joined(separator: ","))")
        }
        lines += ["", signedHeaders, payloadHash]
        text = lines.joined(separator: "\n")
    }

    /// What the signature is computed over.
    package func stringToSign(_ scope: SigningScope) -> String {
        let digest = Hexadecimal.encode(Digest.of(Array(text.utf8), .sha256))
        return "\(Self.algorithm)\n\(scope.timestamp)\n\(scope.text)\n\(digest)"
    }

    /// A value without the spaces around it, and with runs of spaces within it as one.
    private static func collapsingSpaces(_ value: String) -> String {
        var result: [UInt8] = []
        for byte in trimmingOptionalWhitespace(value).utf8 where byte != 0x20 || result.last != 0x20 {
            result.append(byte)
        }
        return String(decoding: result, as: UTF8.self)
    }
}
