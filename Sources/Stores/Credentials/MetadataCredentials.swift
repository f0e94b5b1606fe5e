// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
package import CurlTransport
internal import HTTPWire
internal import Platform
internal import S3Wire

/// Temporary credentials of the machine: from a container's agent, or an instance's metadata service (IMDSv2).
package final class MetadataCredentials: Sendable {
    private struct State {
        var credentials: SigningCredentials?
        var expires: Timestamp?
        /// Not asked again before, where there was no service or it had nothing.
        var askAgainAt = 0.0
    }

    /// How long before their end credentials are renewed, in seconds.
    private static let margin: Int64 = 300
    /// How long a machine without a service is not asked again, in seconds.
    private static let patience = 60.0

    private let environment: [String: String]
    private let transport: CurlTransport
    private let allowsInstance: Bool
    private let state = Lock(State())

    /// `allowsInstance`: whether to ask the instance's service, which only machines of that cloud have; asking
    /// elsewhere costs a second and may reach a stranger.
    package init(environment: [String: String], transport: CurlTransport, allowsInstance: Bool) {
        self.environment = environment
        self.transport = transport
        self.allowsInstance = allowsInstance
    }

    /// The credentials, renewed when they are about to end; nil when the machine gives none.
    ///
    /// On the transfer thread, which must not wait, the last known ones.
    func credentials() -> SigningCredentials? {
        let known = state.withLock { $0 }
        let now = Timestamp.now()
        if let credentials = known.credentials, (known.expires ?? now).seconds - now.seconds > Self.margin {
            return credentials
        }
        guard !transport.isOnTransferThread, monotonicSeconds() >= known.askAgainAt else { return known.credentials }
        return renew() ?? known.credentials
    }

    /// Asks the machine now; nil when it gives none.
    func renew() -> SigningCredentials? {
        guard !transport.isOnTransferThread else { return nil }
        let document = fromContainer() ?? fromInstance()
        return state.withLock { state in
            state.askAgainAt = monotonicSeconds() + Self.patience
            guard let document, let id = document["AccessKeyId"], let secret = document["SecretAccessKey"] else {
                return nil
            }
            let credentials = SigningCredentials(
                accessKeyID: id,
                secretAccessKey: secret,
                sessionToken: document["Token"]
            )
            state.credentials = credentials
            state.expires =
                document["Expiration"].flatMap { Timestamp(s3: $0) }
                ?? Timestamp.now().advanced(bySeconds: 3600)
            return credentials
        }
    }

    // MARK: Services

    private func fromContainer() -> [String: String]? {
        let url: String
        if let path = environment["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"], path.hasPrefix("/") {
            url = "http://169.254.170.2\(path)"
        } else if let full = environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"], Self.isTrusted(full) {
            url = full
        } else {
            return nil
        }
        var fields = HTTPFields()
        if let token = authorizationToken() { fields.append("Authorization", token) }
        return get(url, fields).flatMap { FlatJSON.strings($0) }
    }

    private func authorizationToken() -> String? {
        if let path = environment["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] {
            let text = (try? Files.read(path, limit: 1 << 16)).map { String(decoding: $0, as: UTF8.self) }
            return text.map { String($0.prefix { !$0.isNewline }) }
        }
        return environment["AWS_CONTAINER_AUTHORIZATION_TOKEN"]
    }

    /// Whether a URL of the environment may be asked for credentials: over TLS, or on this machine.
    private static func isTrusted(_ url: String) -> Bool {
        guard let parts = URLParts(url) else { return false }
        if parts.scheme == "https" { return true }
        if parts.authority.hasPrefix("[") {
            return parts.authority.hasPrefix("[::1]") || parts.authority.hasPrefix("[fd00:ec2::23]")
        }
        let host = parts.authority.prefix { $0 != ":" }
        return ["localhost", "169.254.170.2", "169.254.170.23"].contains(host) || isLoopback(host)
    }

    /// Whether a host is an address in 127.0.0.0/8, and not a name that begins like one.
    private static func isLoopback(_ host: Substring) -> Bool {
        let numbers = host.split(separator: ".", omittingEmptySubsequences: false)
        return numbers.count == 4 && numbers[0] == "127" && numbers.allSatisfy { UInt8($0) != nil }
    }

    /// The instance's role by IMDSv2: a token, the role's name, its credentials.
    private func fromInstance() -> [String: String]? {
        guard allowsInstance, environment["AWS_EC2_METADATA_DISABLED"]?.lowercased() != "true" else { return nil }
        let base = environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] ?? "http://169.254.169.254"
        let service = base.hasSuffix("/") ? String(base.dropLast()) : base
        let lifetime = HTTPFields([.init(name: "X-aws-ec2-metadata-token-ttl-seconds", value: "21600")])
        guard let token = send("PUT", service + "/latest/api/token", lifetime),
            let secret = String(validating: token, as: UTF8.self)
        else { return nil }
        let fields = HTTPFields([.init(name: "X-aws-ec2-metadata-token", value: secret)])
        let folder = service + "/latest/meta-data/iam/security-credentials/"
        guard let answer = get(folder, fields) else { return nil }
        let role = String(decoding: answer, as: UTF8.self).prefix { !$0.isNewline }
        guard !role.isEmpty else { return nil }
        return get(folder + PercentEncoding.encode(String(role)), fields).flatMap { FlatJSON.strings($0) }
    }

    private func get(_ url: String, _ fields: HTTPFields) -> [UInt8]? { send("GET", url, fields) }

    /// The body of a 200 answer; nil for anything else, quickly.
    private func send(_ method: String, _ url: String, _ fields: HTTPFields) -> [UInt8]? {
        var request = TransferRequest(
            method: method,
            url: url,
            fields: fields,
            body: method == "PUT" ? .bytes([]) : nil
        )
        request.connectTimeout = 1
        request.totalTimeout = 3
        guard let response = try? transport.perform(request, limit: 64 << 10), response.status == 200 else {
            return nil
        }
        return response.body
    }
}
