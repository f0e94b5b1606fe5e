// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CurlTransport
internal import HTTPWire
internal import ObjectStore
internal import Platform
internal import S3Wire

/// A ranged read that goes on by itself after a broken connection, from the byte it had got to.
///
/// Everything but ``cancel()`` runs on the transfer thread.
final class S3RangeFetch: RangeFetch, TransferDelegate, @unchecked Sendable {
    /// How many requests may fail in a row without a byte in between.
    private static let failureLimit = 4
    /// How many bytes of a whole object are skipped at most to get at a range in it.
    private static let wasteLimit: Int64 = 256 << 20

    private let client: S3Client
    private let key: ObjectKey
    private let version: ObjectVersion
    private let range: ByteRange
    private let sink: any RangeSink
    /// The transfer under way, for cancelling from other threads.
    private let control = Lock((transfer: Transfer?.none, isCancelled: false))

    // The transfer thread's own.
    private var position: Int64
    /// Where the next byte of the answer's body belongs in the object; nil while the body is an error's.
    private var bodyOffset: Int64?
    /// Where the answer's body must end by its own word.
    private var bodyEnd = Int64.max
    private var head: (status: Int, fields: HTTPFields)?
    private var verdict: RangedResponse.Verdict?
    private var errorBody: [UInt8] = []
    private var failures = 0
    /// How many wanted bytes the answer has brought.
    private var delivered: Int64 = 0
    private var lessons: Set<S3Client.Lesson> = []
    private var lastProgress = AttendedClock.shared.seconds

    init(_ client: S3Client, key: ObjectKey, version: ObjectVersion, range: ByteRange, sink: any RangeSink) {
        self.client = client
        self.key = key
        self.version = version
        self.range = range
        self.sink = sink
        position = range.lower
    }

    /// Starts; the sink is never called on this thread.
    func begin() {
        client.transport.schedule(after: 0) { self.request() }
    }

    func cancel() {
        let transfer = control.withLock { control in
            control.isCancelled = true
            return control.transfer
        }
        transfer?.cancel()
    }

    private func request() {
        guard position < range.upper else { return finish(.success(())) }
        guard range.upper <= version.size else {
            return finish(.failure(StoreError(.protocolViolation, "a range behind the object's end was asked for")))
        }
        head = nil
        verdict = nil
        bodyOffset = nil
        bodyEnd = .max
        errorBody = []
        delivered = 0
        var request = S3Request("GET", key)
        request.fields.append("Range", RangeField.value(for: ByteRange(position, range.upper)))
        if let tag = version.entityTag, !tag.isWeak { request.fields.append("If-Match", tag.fieldValue) }
        do throws(StoreError) {
            var transfer = try client.build(request)
            transfer.leastBytes = RetryPolicy.leastProgress
            if control.withLock({ $0.isCancelled }) {
                return finish(.failure(StoreError(.cancelled, "cancelled")))
            }
            let started = client.transport.start(transfer, delegate: self)
            let isCancelled = control.withLock { control in
                control.transfer = started
                return control.isCancelled
            }
            if isCancelled { started.cancel() }
        } catch {
            finish(.failure(error))
        }
    }

    // MARK: TransferDelegate

    func transferDidReceiveHead(status: Int, fields: HTTPFields) -> Bool {
        head = (status, fields)
        let verdict = RangedResponse.judge(
            status: status,
            fields: fields,
            requested: ByteRange(position, range.upper),
            expected: version
        )
        self.verdict = verdict
        switch verdict {
        case .use(let got): (bodyOffset, bodyEnd) = (got.lower, got.upper)
        case .wholeObject: bodyOffset = 0
        case .errorStatus: break
        case .changed, .endOfFile, .reject: return false
        }
        return bodyOffset != 0 || position <= Self.wasteLimit
    }

    func transferDidReceive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let offset = bodyOffset else {
            errorBody.append(contentsOf: bytes.prefix(65_536 - min(65_536, errorBody.count)))
            return true
        }
        guard Int64(bytes.count) <= bodyEnd - offset else {
            verdict = .reject("the body is longer than its Content-Range")
            return false
        }
        bodyOffset = offset + Int64(bytes.count)
        let skipped = Int(min(Int64(bytes.count), max(0, position - offset)))
        let wanted = Int(min(Int64(bytes.count - skipped), range.upper - position))
        guard wanted > 0 else { return position < range.upper }
        delivered += Int64(wanted)
        if delivered >= RetryPolicy.leastProgress {
            failures = 0
            lastProgress = AttendedClock.shared.seconds
        }
        sink.received(UnsafeRawBufferPointer(rebasing: bytes[skipped..<(skipped + wanted)]), at: position)
        position += Int64(wanted)
        // The rest of a whole object is of no use; of a range there is no rest.
        if case .wholeObject = verdict { return position < range.upper }
        return true
    }

    func transferDidDrain() { sink.drained() }

    func transferDidFinish(_ result: Result<TransferSummary, TransferError>) {
        if case .reject? = verdict, let error = error(result) { return retry(after: error) }
        if position == range.upper { return finish(.success(())) }
        if let error = error(result) { return retry(after: error) }
        // A shorter range than asked for is legal: ask for the rest.
        guard let verdict, case .use = verdict, delivered >= RetryPolicy.leastProgress else {
            return retry(after: StoreError(.temporary, "the answer ended early"))
        }
        request()
    }

    // MARK: End

    private func error(_ result: Result<TransferSummary, TransferError>) -> StoreError? {
        switch verdict {
        case .changed?, .endOfFile?:
            return StoreError(.preconditionFailed, "the object has changed", status: head?.status)
        case .reject(let reason)?:
            return StoreError(.protocolViolation, "the answer to a range is not usable: \(reason)")
        case .wholeObject? where position > Self.wasteLimit && bodyOffset == 0:
            return StoreError(.unsupported, "the server does not support ranges")
        case .errorStatus?:
            if case .success = result, let head {
                return S3ErrorMapping.error(status: head.status, fields: head.fields, body: errorBody)
            }
        default: break
        }
        if case .failure(let error) = result { return S3ErrorMapping.error(error) }
        return nil
    }

    private func retry(after error: StoreError) {
        if let head, case .errorStatus? = verdict {
            let answer = TransferResponse(status: head.status, fields: head.fields, body: errorBody, bytesSent: 0)
            if client.learn(from: answer, lessons: &lessons, mayBlock: false) { return request() }
            if client.isAboutCredentials(answer), lessons.insert(.credentials).inserted {
                return refreshCredentials(orFail: error)
            }
        }
        failures += 1
        let policy = RetryPolicy(
            attempts: Self.failureLimit,
            timeLimit: client.configuration.interactiveTimeout,
            isRepeatable: true
        )
        let delay = policy.delay(
            after: error,
            attempt: failures,
            elapsed: AttendedClock.shared.seconds - lastProgress,
            random: .random(in: 0...1)
        )
        guard let delay, client.budget.take(isThrottled: RetryPolicy.isThrottle(error)) else {
            return finish(.failure(error))
        }
        client.transport.schedule(after: delay) { self.request() }
    }

    /// Looks for newer credentials on a thread that may wait, then asks again or gives up.
    private func refreshCredentials(orFail error: StoreError) {
        do throws(SystemError) {
            try Thread.detached(name: "credentials") {
                let isRenewed = self.client.refreshCredentials()
                self.client.transport.schedule(after: 0) {
                    if isRenewed { self.request() } else { self.finish(.failure(error)) }
                }
            }
        } catch {
            finish(.failure(StoreError(.authentication, "no thread to renew the credentials: \(error)")))
        }
    }

    private func finish(_ result: Result<Void, StoreError>) {
        if case .success = result { client.budget.giveBack() }
        control.withLock { $0.transfer = nil }
        sink.finished(result)
    }
}
