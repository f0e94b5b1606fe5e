// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CurlTransport
internal import HTTPWire
internal import ObjectStore
internal import Platform

/// A ranged read of one version, `If-Range` its strong validator; goes on by itself after a broken connection.
///
/// Every answer is judged by its own fields, whatever was asked: servers ignore
/// Range and If-Range. Everything but ``cancel()`` runs on the transfer thread.
final class HTTPRangeFetch: RangeFetch, FollowedGetOwner, @unchecked Sendable {
    /// How many requests may fail in a row without a byte in between.
    private static let failureLimit = 4

    private let store: HTTPStore
    private let key: ObjectKey
    private let version: ObjectVersion
    private let validator: String
    private let range: ByteRange
    private let sink: any RangeSink
    /// What is under way, for cancelling from other threads.
    private let control = Lock((inner: (any RangeFetch)?.none, isCancelled: false))

    // The transfer thread's own.
    private var position: Int64
    private var verdict = RangedResponse.Verdict.errorStatus
    private var head: (status: Int, fields: HTTPFields)?
    /// The bytes of the file that the answer's body still has; nil while the body is an error's.
    private var body: ByteRange?
    private var failures = 0
    /// How many wanted bytes the answer has brought.
    private var delivered: Int64 = 0
    private var lastProgress = AttendedClock.shared.seconds

    init(
        _ store: HTTPStore,
        key: ObjectKey,
        version: ObjectVersion,
        validator: String,
        range: ByteRange,
        sink: any RangeSink
    ) {
        self.store = store
        self.key = key
        self.version = version
        self.validator = validator
        self.range = range
        self.sink = sink
        position = range.lower
    }

    /// Starts; the sink is never called on this thread.
    func begin() {
        store.client.transport.schedule(after: 0) { self.request() }
    }

    func cancel() {
        let inner = control.withLock { control in
            control.isCancelled = true
            return control.inner
        }
        inner?.cancel()
    }

    private func request() {
        guard position < range.upper else { return finish(.success(())) }
        guard range.upper <= version.size else {
            return finish(.failure(StoreError(.protocolViolation, "a range behind the file's end was asked for")))
        }
        verdict = .errorStatus
        head = nil
        body = nil
        delivered = 0
        var fields = HTTPFields()
        fields.append("Range", RangeField.value(for: ByteRange(position, range.upper)))
        fields.append("If-Range", validator)
        let get = FollowedGet(store.client, store.client.url(key), fields: fields, owner: self)
        adopt(get)
        get.begin()
    }

    private func adopt(_ inner: any RangeFetch) {
        let isCancelled = control.withLock { control in
            control.inner = inner
            return control.isCancelled
        }
        if isCancelled { inner.cancel() }
    }

    // MARK: FollowedGetOwner

    func getDidReceiveHead(status: Int, fields: HTTPFields) -> Bool {
        head = (status, fields)
        verdict = RangedResponse.judge(
            status: status,
            fields: fields,
            requested: ByteRange(position, range.upper),
            expected: version
        )
        switch verdict {
        case .use(let got): body = got
        case .wholeObject: body = ByteRange(0, version.size)
        case .errorStatus, .changed, .endOfFile, .reject: return false
        }
        // A server that sends the whole file for its middle does so for every range.
        return body?.lower == position
    }

    func getDidReceive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let body else { return false }
        guard bytes.count <= body.count else {
            verdict = .reject("the body is longer than it says")
            return false
        }
        self.body = ByteRange(body.lower + Int64(bytes.count), body.upper)
        let wanted = Int(min(Int64(bytes.count), range.upper - position))
        delivered += Int64(wanted)
        if delivered >= RetryPolicy.leastProgress {
            failures = 0
            lastProgress = AttendedClock.shared.seconds
        }
        sink.received(UnsafeRawBufferPointer(rebasing: bytes[..<wanted]), at: position)
        position += Int64(wanted)
        // The rest of a whole file is of no use; of a range there is no rest.
        if case .wholeObject = verdict { return position < range.upper }
        return true
    }

    func getDidDrain() { sink.drained() }

    func getDidFinish(_ result: Result<Void, StoreError>) {
        switch verdict {
        case .reject(let reason):
            finish(.failure(StoreError(.protocolViolation, "the answer to a range is not usable: \(reason)")))
        case .changed, .endOfFile:
            store.forget(key)
            finish(.failure(HTTPErrors.changed))
        case .wholeObject where body?.lower == 0 && position > 0: readWhole()
        case .use, .wholeObject:
            if position == range.upper { return finish(.success(())) }
            if case .failure(let error) = result { return retry(after: error) }
            // A shorter range than asked for is legal: ask for the rest.
            if delivered >= RetryPolicy.leastProgress { return request() }
            retry(after: StoreError(.temporary, "the answer ended early"))
        case .errorStatus:
            if let head { return retry(after: HTTPErrors.error(head.status, head.fields)) }
            if case .failure(let error) = result { return retry(after: error) }
            retry(after: StoreError(.protocolViolation, "no answer"))
        }
    }

    // MARK: End

    /// Goes on with the whole file read once, instead of the beginning again for every range.
    private func readWhole() {
        store.noteWithoutRanges(key)
        adopt(store.snapshots.fetch(key, version, ByteRange(position, range.upper), into: sink))
    }

    private func retry(after error: StoreError) {
        failures += 1
        let policy = RetryPolicy(
            attempts: Self.failureLimit,
            timeLimit: store.client.configuration.interactiveTimeout,
            isRepeatable: true
        )
        let delay = policy.delay(
            after: error,
            attempt: failures,
            elapsed: AttendedClock.shared.seconds - lastProgress,
            random: .random(in: 0...1)
        )
        guard let delay, store.client.budget.take(isThrottled: RetryPolicy.isThrottle(error)) else {
            return finish(.failure(error))
        }
        store.client.transport.schedule(after: delay) { self.request() }
    }

    private func finish(_ result: Result<Void, StoreError>) {
        if case .success = result { store.client.budget.giveBack() }
        control.withLock { $0.inner = nil }
        sink.finished(result)
    }
}
