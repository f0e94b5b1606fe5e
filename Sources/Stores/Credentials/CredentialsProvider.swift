// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import ObjectStore
package import S3Wire

/// Where the credentials of a store come from.
package protocol CredentialsProvider: AnyObject, Sendable {
    /// The credentials to sign with now; nil signs nothing. Called before every request, so it must be cheap.
    func credentials() throws(StoreError) -> SigningCredentials?
    /// Looks for newer ones after a refusal; true when there are others now. May read files and block.
    func refresh() -> Bool
}

/// Credentials that never change by themselves.
package final class StaticCredentials: CredentialsProvider {
    private let value: SigningCredentials?

    package init(accessKeyID: String, secretAccessKey: String, sessionToken: String? = nil) {
        value = SigningCredentials(
            accessKeyID: accessKeyID,
            secretAccessKey: secretAccessKey,
            sessionToken: sessionToken
        )
    }

    private init() {
        value = nil
    }

    /// Requests without a signature.
    package static let anonymous = StaticCredentials()

    package func credentials() -> SigningCredentials? { value }
    package func refresh() -> Bool { false }
}
