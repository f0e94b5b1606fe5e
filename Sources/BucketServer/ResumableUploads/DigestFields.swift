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

    /// What must be true of the content of a request: what its `Content-Digest` says, and what its authority is for.
    ///
    /// Nil when nothing is said; throws when the two differ.
    static func ofContent(
        _ request: HTTPRequest,
        _ authorizer: any HTTPRequestAuthorizer
    ) throws(UploadReceiver.Failure) -> PromisedDigest? {
        let said = PromisedDigest(request.fields, "Content-Digest")
        guard let value = authorizer.promisedDigest(of: request) else { return said }
        if let said, said.value != value { throw .digestMismatch }
        return PromisedDigest(algorithm: .sha256, value: value)
    }

    private init(algorithm: DigestAlgorithm, value: [UInt8]) {
        self.algorithm = algorithm
        self.value = value
    }

    func isKept(by digest: Digest) -> Bool { equalInConstantTime(digest.finalize(), value) }
}
