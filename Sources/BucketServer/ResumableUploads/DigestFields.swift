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

    func isKept(by digest: Digest) -> Bool { equalInConstantTime(digest.finalize(), value) }
}
