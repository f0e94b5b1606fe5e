// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CurlTransport
internal import HTTPWire
internal import ObjectStore
internal import Platform

/// Sends requests below one folder of a web server: logins, redirects, retries.
final class HTTPClient: Sendable {
    /// A complete answer and where it came from.
    struct Answer {
        var response: TransferResponse
        /// The URL that answered in the end.
        var url: WebURL
        /// A file's name was answered by a redirect to the same name with a slash.
        var leadsToFolder = false
    }

    let configuration: HTTPStoreConfiguration
    let transport: CurlTransport
    let budget = RetryBudget()
    /// What was told before is asked again, in monotonic seconds.
    private let refreshedAt = Lock(-Double.infinity)

    init(_ configuration: HTTPStoreConfiguration, transport: CurlTransport) {
        self.configuration = configuration
        self.transport = transport
    }

    func forgetAges() { refreshedAt.withLock { $0 = monotonicSeconds() } }

    /// Whether what was told at this time is still believed where nothing shows whether it changed.
    func isBelieved(_ time: Double) -> Bool {
        time > refreshedAt.withLock { $0 } && monotonicSeconds() - time < configuration.metadataAge
    }

    /// The URL of a file, or of a folder when the key ends with a slash.
    func url(_ key: ObjectKey) -> WebURL { configuration.root.appending(key.bytes) }

    func folderURL(_ folder: ObjectKey) -> WebURL {
        folder.isRoot ? configuration.root : configuration.root.appending(folder.bytes + [0x2F])
    }

    /// A request ready to send; a login only to the origin that it is for.
    func build(_ method: String, _ url: WebURL, _ fields: HTTPFields, body: [UInt8]? = nil) -> TransferRequest {
        var request = TransferRequest(method: method, url: url.text, fields: fields, body: body.map { .bytes($0) })
        if url.origin == configuration.root.origin {
            if let login = configuration.credentials { request.fields["Authorization"] = login.fieldValue }
            request.showsClientCertificate = configuration.hasClientCertificate
        }
        request.connectTimeout = configuration.connectTimeout
        request.stallTimeout = configuration.stallTimeout
        request.leastBytes = RetryPolicy.leastProgress
        request.answerTimeout = min(30, configuration.stallTimeout)
        return request
    }

    /// Sends a request that may be repeated, follows redirects and returns the answer unless its status is one
    /// that may pass.
    func send(
        _ method: String,
        _ url: WebURL,
        fields: HTTPFields = HTTPFields(),
        body: [UInt8]? = nil,
        limit: Int = 1 << 20,
        timeLimit: Double? = nil,
        attempts: Int = RetryPolicy.usualAttempts,
        cancellation: (any Cancellation)? = nil
    ) throws(StoreError) -> Answer {
        let timeLimit = timeLimit ?? configuration.interactiveTimeout
        let policy = RetryPolicy(attempts: attempts, timeLimit: timeLimit, isRepeatable: true)
        var retries = Retries(policy, budget, cancellation)
        while true {
            if cancellation?.isCancelled == true { throw StoreError(.cancelled, "cancelled") }
            let error: StoreError
            do throws(StoreError) {
                let end = retries.started + timeLimit
                let answer = try follow(method, url, fields, body, limit: limit, until: end, cancellation)
                let failure = HTTPErrors.error(answer.response.status, answer.response.fields)
                guard answer.response.status >= 400, failure.isTransient else {
                    budget.giveBack()
                    return answer
                }
                error = failure
            } catch let failure {
                error = failure
            }
            try retries.wait(after: error, "http", method)
        }
    }

    private func follow(
        _ method: String,
        _ url: WebURL,
        _ fields: HTTPFields,
        _ body: [UInt8]?,
        limit: Int,
        until end: Double,
        _ cancellation: (any Cancellation)?
    ) throws(StoreError) -> Answer {
        var url = url
        for _ in 0...Redirection.limit {
            var request = build(method, url, fields, body: body)
            request.totalTimeout = max(0.1, end - AttendedClock.shared.seconds)
            let response = try perform(request, limit: limit, cancellation)
            let location = response.fields["location"]
            switch Redirection.judge(status: response.status, location: location, method: method, url: url) {
            case .none: return Answer(response: response, url: url)
            case .refuse(let reason): throw HTTPErrors.refusedRedirect(reason)
            case .follow(let target):
                if target.origin == url.origin, target.path == url.path + "/" {
                    return Answer(response: response, url: target, leadsToFolder: true)
                }
                url = target
            }
        }
        throw HTTPErrors.refusedRedirect("more than \(Redirection.limit) in a row")
    }

    /// Sends a request once, with cancellation.
    private func perform(
        _ request: TransferRequest,
        limit: Int,
        _ cancellation: (any Cancellation)?
    ) throws(StoreError) -> TransferResponse {
        var token = 0
        var watch: Interruption.Watch?
        defer {
            cancellation?.removeHandler(token)
            watch?.end()
        }
        var request = request
        if let cancellation { request.go(by: cancellation) }
        do {
            return try transport.perform(
                request,
                limit: limit,
                started: { transfer in
                    if let cancellation { token = cancellation.onCancel { transfer.cancel() } }
                    watch = Interruption.watch { transfer.cancel() }
                }
            )
        } catch {
            throw S3ErrorMapping.error(error)
        }
    }
}

/// What the answers of web servers mean.
enum HTTPErrors {
    /// The error of an answer with an error status.
    static func error(_ status: Int, _ fields: HTTPFields) -> StoreError {
        let general = S3ErrorMapping.error(status: status, fields: fields, body: [], isHead: true)
        switch status {
        case 401:
            let advice = "put it into ~/.netrc, or username and password into [volume NAME] of the configuration file"
            return StoreError(.authentication, "the server wants another login (401); \(advice)", status: status)
        default: return general
        }
    }

    static func refusedRedirect(_ reason: String) -> StoreError {
        StoreError(.redirected, "a redirect is not followed: \(reason)")
    }

    static let changed = StoreError(.preconditionFailed, "the file has changed at the remote")

    static func coded(_ coding: String) -> StoreError {
        StoreError(.unsupported, "the server sends the file in the content coding \(coding) only")
    }
}
