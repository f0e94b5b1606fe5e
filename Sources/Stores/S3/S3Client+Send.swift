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
        let isInteractive = request.urgency == .interactive
        let timeLimit = isInteractive ? configuration.interactiveTimeout : configuration.uploadRetryTime
        let policy = RetryPolicy(
            attempts: request.attempts,
            timeLimit: timeLimit,
            isRepeatable: request.isRepeatable
        )
        var retries = Retries(policy, budget, cancellation)
        var lessons: Set<Lesson> = []
        while true {
            if cancellation?.isCancelled == true { throw StoreError(.cancelled, "cancelled") }
            let error: StoreError
            do throws(StoreError) {
                let left = isInteractive ? max(0.1, retries.started + timeLimit - AttendedClock.shared.seconds) : nil
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
            try retries.wait(after: error, "s3", request.method)
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
        var watch: Interruption.Watch?
        defer {
            cancellation?.removeHandler(token)
            watch?.end()
        }
        var transfer = transfer
        if let cancellation { transfer.go(by: cancellation) }
        do {
            let response = try transport.perform(
                transfer,
                limit: limit,
                informational: informational,
                progress: progress,
                started: { transfer in
                    if let cancellation { token = cancellation.onCancel { transfer.cancel() } }
                    watch = Interruption.watch { transfer.cancel() }
                }
            )
            if let portal = CaptivePortal.error(
                status: response.status,
                fields: response.fields,
                host: endpoint.host
            ) {
                // After the login the same connection would still lead to whoever answered.
                transport.networkChanged()
                throw portal
            }
            noteTime(response.fields)
            return response
        } catch let error as TransferError {
            throw S3ErrorMapping.error(error)
        } catch let error as StoreError {
            throw error
        } catch {
            throw StoreError(.protocolViolation, "\(error)")
        }
    }
}
