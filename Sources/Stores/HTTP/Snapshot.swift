// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CurlTransport
internal import Glibc
internal import HTTPWire
internal import ObjectStore
internal import Platform

/// A whole file read in one answer into a local file without a name, for readers of any part of it.
///
/// For what no two answers may be put together for: files without a strong
/// validator, and servers without ranges. Everything runs on the transfer thread.
final class Snapshot: FollowedGetOwner, @unchecked Sendable {
    /// What the answer must be about.
    enum Expectation: Hashable, Sendable {
        case version(ObjectVersion)
        case observation(Observation)
    }

    private static let attempts = 3
    private static let pieceSize = 256 << 10

    let size: Int64
    private let client: HTTPClient
    private let url: WebURL
    private let expectation: Expectation
    private let file: FileDescriptor
    /// Called once when it turns out that there is no such snapshot to be had.
    private let onFailure: @Sendable (StoreError) -> Void

    private var position: Int64 = 0
    private var result: Result<Void, StoreError>?
    private var problem: StoreError?
    private var readers: [SnapshotFetch] = []
    /// Bytes of this answer were given away: another answer is no substitute any more.
    private var hasDelivered = false
    private var attempt = 1

    init(
        _ client: HTTPClient,
        _ url: WebURL,
        size: Int64,
        expectation: Expectation,
        onFailure: @escaping @Sendable (StoreError) -> Void
    ) throws(SystemError) {
        self.client = client
        self.url = url
        self.size = size
        self.expectation = expectation
        self.onFailure = onFailure
        let directory = client.configuration.spoolDirectory
        try Files.makeDirectories(directory)
        let path = "\(directory)/spool-\(Randomness.hexadecimal(bytes: 8))"
        file = try FileDescriptor.open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW)
        // Nobody else needs its name, and without one it goes with the process.
        try Files.removeIfPresent(path)
    }

    func begin() { client.transport.schedule(after: 0) { self.request() } }

    private func request() {
        position = 0
        problem = nil
        FollowedGet(client, url, fields: HTTPFields(), owner: self).begin()
    }

    // MARK: Readers

    func add(_ reader: SnapshotFetch) {
        client.transport.schedule(after: 0) {
            self.readers.append(reader)
            self.serve()
        }
    }

    /// Gives each reader what is there; those that have all, or will not get it, leave.
    func serve() {
        readers = readers.filter { !advance($0) }
    }

    /// Whether the reader is done.
    private func advance(_ reader: SnapshotFetch) -> Bool {
        if reader.isCancelled {
            reader.sink.finished(.failure(StoreError(.cancelled, "cancelled")))
            return true
        }
        do throws(SystemError) {
            try deliver(to: reader)
        } catch {
            reader.sink.finished(.failure(StoreError(.localInput, "the spool file: \(error)")))
            return true
        }
        if reader.position == reader.range.upper {
            reader.sink.finished(.success(()))
            return true
        }
        guard case .failure(let error)? = result else { return false }
        reader.sink.finished(.failure(error))
        return true
    }

    private func deliver(to reader: SnapshotFetch) throws(SystemError) {
        let end = min(position, reader.range.upper)
        guard reader.position < end else { return }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceSize, alignment: 4096)
        defer { buffer.deallocate() }
        hasDelivered = true
        while reader.position < end {
            let wanted = Int(min(Int64(buffer.count), end - reader.position))
            let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])
            guard try file.read(into: piece, at: reader.position) == wanted else {
                throw SystemError.make(EIO, "read")
            }
            reader.sink.received(UnsafeRawBufferPointer(piece), at: reader.position)
            reader.position += Int64(wanted)
        }
        reader.sink.drained()
    }

    // MARK: FollowedGetOwner

    func getDidReceiveHead(status: Int, fields: HTTPFields) -> Bool {
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
        return fields["content-length"] != nil && fields.contentLength != size ? HTTPErrors.changed : nil
    }

    private func isExpected(_ fields: HTTPFields) -> Bool {
        switch expectation {
        case .observation(let seen): return seen.agrees(with: Observation(fields))
        case .version(let version):
            if let tag = version.entityTag { return fields.entityTag?.opaque == tag.opaque }
            return fields["etag"] == nil && fields.lastModified == version.lastModified
        }
    }

    func getDidReceive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard Int64(bytes.count) <= size - position else {
            problem = HTTPErrors.changed
            return false
        }
        do throws(SystemError) {
            try file.write(bytes, at: position)
        } catch {
            let isFull = error.code == ENOSPC || error.code == EDQUOT
            problem = StoreError(isFull ? .noSpace : .localInput, "the spool file: \(error)")
            return false
        }
        position += Int64(bytes.count)
        serve()
        return true
    }

    func getDidDrain() {}

    func getDidFinish(_ result: Result<Void, StoreError>) {
        var error = problem
        if error == nil, case .failure(let failure) = result { error = failure }
        if error == nil, position < size { error = StoreError(.temporary, "the answer ended early") }
        guard let error else { return end(.success(())) }
        if error.isTransient, !hasDelivered, attempt < Self.attempts {
            client.transport.schedule(after: 0.2 * Double(attempt)) { self.request() }
            attempt += 1
            return
        }
        end(.failure(error))
    }

    private func end(_ result: Result<Void, StoreError>) {
        self.result = result
        if case .failure(let error) = result { onFailure(error) }
        serve()
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

extension Snapshot {
    /// Has the readers looked at again, soon.
    fileprivate func wake() { client.transport.schedule(after: 0) { self.serve() } }
}
