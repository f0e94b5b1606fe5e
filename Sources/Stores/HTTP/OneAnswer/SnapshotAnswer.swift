// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import ObjectStore
internal import Platform

/// One answer of the server's to the question for a ``Snapshot``'s file; everything runs on the transfer thread.
final class SnapshotAnswer: FollowedGetOwner, @unchecked Sendable {
    private let snapshot: Snapshot
    private var get: FollowedGet?
    private var problem: StoreError?
    private var isGivenUp = false
    /// The server is kept waiting.
    private(set) var isHeld = false

    init(_ snapshot: Snapshot) {
        self.snapshot = snapshot
    }

    func begin(_ client: HTTPClient, _ url: WebURL) {
        let get = FollowedGet(client, url, fields: HTTPFields(), owner: self)
        self.get = get
        get.begin()
    }

    /// Lets the server go on after it was held.
    func goOn() {
        isHeld = false
        get?.goOn()
    }

    /// Ends it; the snapshot hears nothing of it any more.
    func giveUp() {
        isGivenUp = true
        get?.cancel()
        get = nil
    }

    // MARK: FollowedGetOwner

    func getDidReceiveHead(status: Int, fields: HTTPFields) -> Bool {
        if isGivenUp { return false }
        problem = problem(status, fields)
        return problem == nil
    }

    private func problem(_ status: Int, _ fields: HTTPFields) -> StoreError? {
        guard status == 200 else {
            if status >= 400 { return HTTPErrors.error(status, fields) }
            return StoreError(.protocolViolation, "status \(status) in answer to a GET", status: status)
        }
        if let coding = fields.contentCodings.first { return HTTPErrors.coded(coding) }
        guard fields["content-range"] == nil else {
            return StoreError(.protocolViolation, "a part in answer to a GET of the whole")
        }
        guard isExpected(fields) else { return HTTPErrors.changed }
        return fields["content-length"] != nil && fields.contentLength != snapshot.size ? HTTPErrors.changed : nil
    }

    private func isExpected(_ fields: HTTPFields) -> Bool {
        switch snapshot.expectation {
        case .observation(let seen): return seen.agrees(with: Observation(fields))
        case .version(let version):
            if let tag = version.entityTag { return fields.entityTag?.opaque == tag.opaque }
            return fields["etag"] == nil && fields.lastModified == version.lastModified
        }
    }

    func getMayReceive() -> Bool {
        isHeld = !isGivenUp && !snapshot.mayReceive()
        return !isHeld
    }

    func getDidReceive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if isGivenUp { return false }
        snapshot.take(bytes)
        return !isGivenUp
    }

    func getDidDrain() {}

    func getDidFinish(_ result: Result<Void, StoreError>) {
        get = nil
        if isGivenUp { return }
        if case .failure(let error) = result { return snapshot.ended(problem ?? error) }
        snapshot.ended(problem)
    }
}

/// One reader of a ``Snapshot``.
final class SnapshotFetch: RangeFetch, @unchecked Sendable {
    let range: ByteRange
    let sink: any RangeSink
    private let snapshot: Snapshot
    private let cancelled = Lock(false)
    /// The transfer thread's own.
    var position: Int64

    init(_ snapshot: Snapshot, _ range: ByteRange, _ sink: any RangeSink) {
        self.snapshot = snapshot
        self.range = range
        self.sink = sink
        position = range.lower
    }

    var isCancelled: Bool { cancelled.withLock { $0 } }

    func start() { snapshot.add(self) }

    func cancel() {
        cancelled.withLock { $0 = true }
        snapshot.wake()
    }
}

/// The answers that are held until somebody reads on: each keeps a connection, of which there are few.
final class HeldAnswers: Sendable {
    private static let most = 4
    private let snapshots = Lock<[Snapshot]>([])

    /// Notes one; the one that is held for longest ends when there are too many.
    func add(_ snapshot: Snapshot) {
        let superfluous = snapshots.withLock { snapshots -> Snapshot? in
            guard !snapshots.contains(where: { $0 === snapshot }) else { return nil }
            snapshots.append(snapshot)
            return snapshots.count > Self.most ? snapshots.removeFirst() : nil
        }
        superfluous?.makeRoom()
    }

    func remove(_ snapshot: Snapshot) {
        snapshots.withLock { $0.removeAll { $0 === snapshot } }
    }
}
