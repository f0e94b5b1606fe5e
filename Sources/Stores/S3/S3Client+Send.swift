// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CurlTransport
internal import HTTPWire
internal import ObjectStore
internal import Platform
internal import S3Wire

extension S3Client {
    /// Sends a request, again where that is safe and sensible, and returns a 2xx answer.
    func send(
        _ request: S3Request,
        progress: (@Sendable (Int64) -> Void)? = nil,
        cancellation: (any Cancellation)? = nil
    ) throws(StoreError) -> TransferResponse {
        let started = monotonicSeconds()
        let isInteractive = request.urgency == .interactive
        let timeLimit = isInteractive ? configuration.interactiveTimeout : configuration.uploadRetryTime
        let policy = RetryPolicy(timeLimit: timeLimit, isRepeatable: request.isRepeatable)
        var lessons: Set<Lesson> = []
        var attempt = 1
        while true {
            if cancellation?.isCancelled == true { throw StoreError(.cancelled, "cancelled") }
            let error: StoreError
            do throws(StoreError) {
                let left = isInteractive ? max(0.1, started + timeLimit - monotonicSeconds()) : nil
                let response = try once(request, timeLeft: left, progress: progress, cancellation: cancellation)
                if (200..<300).contains(response.status) {
                    budget.giveBack()
                    return response
                }
                if learn(from: response, lessons: &lessons) { continue }
                error = S3ErrorMapping.error(
                    status: response.status,
                    fields: response.fields,
                    body: response.body,
                    isHead: request.method == "HEAD"
                )
            } catch let failure {
                error = failure
            }
            let delay = policy.delay(
                after: error,
                attempt: attempt,
                elapsed: monotonicSeconds() - started,
                random: .random(in: 0...1)
            )
            guard let delay, budget.take(isThrottled: RetryPolicy.isThrottle(error)) else { throw error }
            Log.info("s3", "\(request.method) again in \(Int(delay * 1000)) ms: \(error.message)")
            pause(delay, cancellation)
            attempt += 1
        }
    }

    /// Sends a request once, whatever the answer's status.
    private func once(
        _ request: S3Request,
        timeLeft: Double?,
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> TransferResponse {
        var transfer = try build(request)
        transfer.totalTimeout = timeLeft
        return try perform(transfer, limit: request.answerLimit, progress: progress, cancellation: cancellation)
    }

    /// Sends a signed request once, with cancellation.
    func perform(
        _ transfer: TransferRequest,
        limit: Int,
        informational: (@Sendable (Int, HTTPFields) -> Void)? = nil,
        progress: (@Sendable (Int64) -> Void)? = nil,
        cancellation: (any Cancellation)? = nil
    ) throws(StoreError) -> TransferResponse {
        var token = 0
        defer { cancellation?.removeHandler(token) }
        do {
            let response = try transport.perform(
                transfer,
                limit: limit,
                informational: informational,
                progress: progress,
                started: { transfer in
                    if let cancellation { token = cancellation.onCancel { transfer.cancel() } }
                }
            )
            noteTime(response.fields)
            return response
        } catch {
            throw S3ErrorMapping.error(error)
        }
    }

    /// Sleeps, until cancelled at most.
    private func pause(_ seconds: Double, _ cancellation: (any Cancellation)?) {
        let isCancelled = Monitor(false)
        let token = cancellation?.onCancel { isCancelled.update { $0 = true } }
        defer { if let token { cancellation?.removeHandler(token) } }
        let _: Void? = isCancelled.wait(timeout: seconds) { $0 ? () : nil }
    }
}
