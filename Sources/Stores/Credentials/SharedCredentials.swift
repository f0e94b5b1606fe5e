// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
package import ObjectStore
internal import Platform
package import S3Wire
internal import Synchronization

/// Credentials from the environment, else from the AWS shared files, else of the machine; looked for again when
/// the remote refuses them.
///
/// A profile that was asked for by name goes before the environment's keys, as in
/// other clients. With neither, requests are refused here with a message that
/// says what to do, unless anonymous access was asked for.
package final class SharedCredentials: CredentialsProvider {
    private struct State {
        var isLoaded = false
        var credentials: SigningCredentials?
        /// Why the files say nothing.
        var problem: String?
    }

    private let profile: String?
    private let environment: [String: String]
    private let machine: MetadataCredentials?
    private let allowsNone: Bool
    private let state = Lock(State())

    /// Looks in `environment` first, then in the files, then asks `machine`.
    ///
    /// `environment` is the process's own, or what a client handed over. `allowsNone`: requests go out unsigned when
    /// nobody has credentials.
    package init(
        profile: String?,
        environment: [String: String],
        machine: MetadataCredentials? = nil,
        allowsNone: Bool = false
    ) {
        self.profile = profile
        self.environment = environment
        self.machine = machine
        self.allowsNone = allowsNone
    }

    package func credentials() throws(StoreError) -> SigningCredentials? {
        let state = state.withLock { state in
            if !state.isLoaded { state = load() }
            return state
        }
        if let credentials = state.credentials ?? machine?.credentials() { return credentials }
        if allowsNone, state.problem == nil { return nil }
        throw StoreError(
            .authentication,
            state.problem
                ?? "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write ~/.aws/credentials"
        )
    }

    package func refresh() -> Bool {
        let (old, new) = state.withLock { state in
            let old = state.credentials
            state = load()
            return (old, state.credentials)
        }
        if let new { return new != old }
        let known = machine?.credentials()
        return machine?.renew().map { $0 != known } ?? false
    }

    private func load() -> State {
        var state = State(isLoaded: true)
        if profile == nil, let id = environment["AWS_ACCESS_KEY_ID"], !id.isEmpty,
            let secret = environment["AWS_SECRET_ACCESS_KEY"], !secret.isEmpty
        {
            let token = environment["AWS_SESSION_TOKEN"].flatMap { $0.isEmpty ? nil : $0 }
            state.credentials = SigningCredentials(accessKeyID: id, secretAccessKey: secret, sessionToken: token)
            return state
        }
        do {
            state.credentials = try AWSProfile.load(profile, environment: environment).credentials
            if state.credentials == nil, let profile {
                state.problem = "profile \(profile) has no aws_access_key_id and aws_secret_access_key"
            }
        } catch {
            state.problem = "the AWS files cannot be read: \(error)"
        }
        return state
    }
}
