// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration
internal import ObjectStore

extension StoreError {
    /// What the remote of a volume or the system said, and what a person can do about it; one line.
    func advised(for volume: VolumeDescription) -> String { volume.url == nil ? description + advice : description }

    private var advice: String {
        switch cause {
        // Without an answer there were none, which it says itself; and a proxy has its own.
        case .authentication where status != nil && status != 407: adviceOnCredentials
        case .noSuchBucket: "; create the bucket, or name another one"
        case .redirected: "; set region= to the bucket's region"
        default: ""
        }
    }

    private var adviceOnCredentials: String {
        switch code {
        case "RequestTimeTooSkewed", "RequestExpired": "; check this machine's clock, and the server's"
        case "ExpiredToken", "InvalidToken", "TokenRefreshRequired": "; renew the session's credentials"
        case "AuthorizationHeaderMalformed": "; check region= and AWS_ACCESS_KEY_ID"
        case "UnsupportedAlgorithm", "InvalidSecurity", "CredentialsNotSupported": ""
        default: "; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile in ~/.aws/credentials"
        }
    }
}
