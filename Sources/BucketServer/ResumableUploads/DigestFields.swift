// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Digests
internal import HTTPWire

/// The digest a message promises (RFC 9530), as far as we can compute it.
struct PromisedDigest: Hashable, Sendable {
    let algorithm: DigestAlgorithm
    let value: [UInt8]

    /// Reads `Content-Digest` or `Repr-Digest`: the strongest algorithm known here, nil when there is none.
    init?(_ fields: HTTPFields, _ name: String) {
        guard let members = StructuredFields.dictionary(fields, name), let value = members["sha-256"]?.bytes,
            value.count == DigestAlgorithm.sha256.byteCount
        else { return nil }
        algorithm = .sha256
        self.value = value
    }

    /// All that must be true of the content of a request: what its `Content-Digest` and its older form `Content-MD5`
    /// say, and what its authority is for.
    ///
    /// Throws when a digest cannot be one.
    static func ofContent(
        _ request: HTTPRequest,
        _ authorizer: any HTTPRequestAuthorizer
    ) throws(UploadReceiver.Failure) -> [PromisedDigest] {
        var promised: [PromisedDigest] = []
        if let said = PromisedDigest(request.fields, "Content-Digest") { promised.append(said) }
        if let value = authorizer.promisedDigest(of: request) {
            promised.append(PromisedDigest(algorithm: .sha256, value: value))
        }
        for text in request.fields.values("Content-MD5") {
            guard let value = Base64.decode(text), value.count == DigestAlgorithm.md5.byteCount else {
                throw .digestMismatch
            }
            promised.append(PromisedDigest(algorithm: .md5, value: value))
        }
        return promised
    }

    private init(algorithm: DigestAlgorithm, value: [UInt8]) {
        self.algorithm = algorithm
        self.value = value
    }

    func isKept(by digest: Digest) -> Bool { equalInConstantTime(digest.finalize(), value) }
}
