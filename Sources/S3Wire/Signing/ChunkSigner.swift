// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Digests

/// The chain of signatures over the chunks of a signed streaming upload.
package struct ChunkSigner: Sendable {
    private let key: SigningKey
    private let scope: SigningScope
    private var previous: String

    /// `seed` is the signature of the request's head.
    package init(key: SigningKey, scope: SigningScope, seed: String) {
        self.key = key
        self.scope = scope
        previous = seed
    }

    /// The signature of the next chunk, from the SHA-256 of its data in hexadecimal.
    package mutating func next(chunkDigest: String) -> String {
        previous = key.signature(
            of: "AWS4-HMAC-SHA256-PAYLOAD\n\(scope.timestamp)\n\(scope.text)\n\(previous)\n"
                + "\(CanonicalRequest.emptyPayload)\n\(chunkDigest)"
        )
        return previous
    }

    /// The signature of the trailers, each line as `name:value` and a line feed.
    package func trailer(_ canonicalTrailers: String) -> String {
        let digest = Hexadecimal.encode(Digest.of(Array(canonicalTrailers.utf8), .sha256))
        return key.signature(
            of: "AWS4-HMAC-SHA256-TRAILER\n\(scope.timestamp)\n\(scope.text)\n\(previous)\n\(digest)"
        )
    }
}
