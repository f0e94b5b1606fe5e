// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CurlTransport
internal import Digests
internal import HTTPWire
internal import ObjectStore
internal import Platform
internal import S3Wire

/// Signs requests to one bucket and knows what signing needs: region, clock, credentials, derived key.
final class S3Client: Sendable {
    private struct Signing {
        var region: String
        /// What to add to our clock to get the server's, in seconds.
        var clockOffset: Double = 0
        /// The derived key and what it was derived from.
        var key: (credentials: SigningCredentials, date: String, region: String, key: SigningKey)?
    }

    let configuration: S3StoreConfiguration
    let endpoint: S3Endpoint
    let transport: CurlTransport
    let budget = RetryBudget()
    private let provider: any CredentialsProvider
    private let signing: Lock<Signing>
    /// What to add to our clock to get the time of the last answer, in nanoseconds; nil before the first.
    private let clockDifference = Lock<Int64?>(nil)

    init(
        _ configuration: S3StoreConfiguration,
        credentials: any CredentialsProvider,
        transport: CurlTransport
    ) throws(StoreError) {
        self.configuration = configuration
        self.transport = transport
        endpoint = try S3Endpoint(configuration)
        provider = credentials
        signing = Lock(Signing(region: configuration.region))
    }

    /// The full key of a key in the volume.
    func fullKey(_ key: ObjectKey) -> ObjectKey { ObjectKey(bytes: configuration.prefix.bytes + key.bytes) }

    // MARK: Building

    /// A signed request, ready to send.
    func build(_ request: S3Request) throws(StoreError) -> TransferRequest {
        let path = endpoint.path(request.key)
        var transfer = TransferRequest(
            method: request.method,
            url: endpoint.url(path: path, query: request.query),
            fields: request.fields,
            body: request.body
        )
        transfer.isReplayable = request.isRepeatable
        try sign(&transfer, path: path, query: request.query)
        limit(&transfer, request.urgency)
        return transfer
    }

    /// Signs a request in place; without credentials it stays unsigned.
    func sign(_ transfer: inout TransferRequest, path: [UInt8], query: URLQuery) throws(StoreError) {
        transfer.fields["Host"] = endpoint.host
        guard let credentials = try provider.credentials() else { return }
        let (scope, key) = signing.withLock { signing in
            let time = Timestamp.now().advanced(bySeconds: signing.clockOffset)
            let scope = SigningScope(time: time, region: signing.region)
            if let known = signing.key, known.credentials == credentials, known.date == scope.date,
                known.region == scope.region
            {
                return (scope, known.key)
            }
            let key = SigningKey(secret: credentials.secretAccessKey, scope: scope)
            signing.key = (credentials, scope.date, scope.region, key)
            return (scope, key)
        }
        RequestSigner.sign(
            &transfer.fields,
            method: transfer.method,
            path: path,
            query: query,
            payloadHash: Self.payloadHash(transfer.body),
            credentials: credentials,
            scope: scope,
            key: key
        )
    }

    /// File content is not hashed for the signature: Content-MD5 guards it, and a pass over it would be wasted.
    private static func payloadHash(_ body: TransferBody?) -> String {
        switch body {
        case nil: CanonicalRequest.emptyPayload
        case .bytes(let bytes): Hexadecimal.encode(Digest.of(bytes, .sha256))
        case .file(_, let range, _): range.isEmpty ? CanonicalRequest.emptyPayload : CanonicalRequest.unsignedPayload
        }
    }

    private func limit(_ transfer: inout TransferRequest, _ urgency: S3Request.Urgency) {
        transfer.connectTimeout = configuration.connectTimeout
        transfer.stallTimeout = configuration.stallTimeout
        switch urgency {
        case .interactive:
            transfer.answerTimeout = configuration.interactiveTimeout
            transfer.stallTimeout = min(configuration.stallTimeout, configuration.interactiveTimeout)
        case .upload: transfer.answerTimeout = max(60, configuration.stallTimeout)
        case .completion: transfer.answerTimeout = configuration.completionTimeout
        }
    }

    // MARK: The server's clock

    /// The server's time as its last answer told it, to the second and so never ahead of it; nil before the first.
    var serverTime: Timestamp? {
        clockDifference.withLock { $0 }.map { Timestamp(nanoseconds: Timestamp.now().nanoseconds + $0) }
    }

    /// Takes in an answer's time.
    func noteTime(_ fields: HTTPFields) {
        guard let date = fields.date else { return }
        clockDifference.withLock { $0 = date.nanoseconds - Timestamp.now().nanoseconds }
    }

    /// Takes the server's clock for ours, as it does not tell the time.
    func assumeServerTime() -> Timestamp {
        clockDifference.withLock { $0 = $0 ?? 0 }
        return .now()
    }

    // MARK: Learning from answers

    /// Whether a refusal taught something that makes another attempt worthwhile: clock, region or credentials.
    ///
    /// `lessons` holds what was already tried for this request, so that each is tried once. `mayBlock` is false
    /// on the transfer thread, where no file is read.
    func learn(from response: TransferResponse, lessons: inout Set<Lesson>, mayBlock: Bool = true) -> Bool {
        switch response.status {
        case 301, 307, 400, 401, 403: break
        default: return false
        }
        if let date = response.fields.date, lessons.insert(.clock).inserted, adoptClock(date) { return true }
        if let region = Self.region(response), lessons.insert(.region).inserted, adoptRegion(region) { return true }
        guard mayBlock, isAboutCredentials(response) else { return false }
        return lessons.insert(.credentials).inserted && provider.refresh()
    }

    /// Looks for newer credentials; true when there are.
    ///
    /// May block.
    func refreshCredentials() -> Bool { provider.refresh() }

    /// Whether newer credentials may help; an answer to HEAD has no code, so its 403 may mean anything.
    func isAboutCredentials(_ response: TransferResponse) -> Bool {
        if response.status == 401 || response.status == 403 { return true }
        let error = S3ErrorMapping.error(status: response.status, fields: response.fields, body: response.body)
        return error.cause == .authentication
    }

    enum Lesson: Hashable {
        case clock
        case region
        case credentials
    }

    /// Takes over the server's clock when ours is off by more than five minutes.
    private func adoptClock(_ date: Timestamp) -> Bool {
        signing.withLock { signing in
            let ours = Timestamp.now()
            let used = ours.advanced(bySeconds: signing.clockOffset)
            guard abs(date.seconds - used.seconds) > 300 else { return false }
            signing.clockOffset = Double(date.seconds - ours.seconds)
            return true
        }
    }

    private static func region(_ response: TransferResponse) -> String? {
        if let region = response.fields["x-amz-bucket-region"] { return region }
        return (try? XMLReader.parse(response.body)).flatMap { S3Error($0) }?.detail("Region")
    }

    private func adoptRegion(_ region: String) -> Bool {
        signing.withLock { signing in
            guard !region.isEmpty, signing.region != region else { return false }
            signing.region = region
            return true
        }
    }
}
