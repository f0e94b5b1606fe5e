// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import BucketServer
import CurlTransport
import Flusher
import Glibc
import HTTPWire
import ObjectStore
import Platform
import ResumableUpload
import Stores
import Synchronization
import TestSupport

/// A real store before a real server, with the fault proxy between them.
final class UploadScene: Sendable {
    let folder: String
    let proxy: FaultProxy
    let store: S3Store
    let content: [UInt8]
    let key = ObjectKey("folder/object")
    private let server: Monitor<BucketServer>
    /// Content bytes that servers before the running one read.
    private let past = Mutex<Int64>(0)

    init(size: Int, seed: UInt64) throws {
        folder = "/tmp/moorage-uploads-\(Randomness.hexadecimal(bytes: 6))"
        try Files.makeDirectories(folder + "/bucket")
        let server = try Self.startServer(folder)
        self.server = Monitor(server)
        proxy = try FaultProxy(upstream: TestSupport.SocketAddress(port: server.port))
        var transport = TransportConfiguration()
        transport.connectionsPerHost = 8
        store = try S3Store(
            configuration: S3StoreConfiguration(endpoint: "http://127.0.0.1:\(proxy.address.port)", bucket: "bucket"),
            credentials: StaticCredentials(accessKeyID: "TESTKEY", secretAccessKey: "not a secret"),
            transport: CurlTransport(configuration: transport)
        )
        content = Self.randomBytes(size, seed: seed)
    }

    deinit {
        proxy.stop()
        server.inspect { $0.stop() }
        Self.removeTree(folder)
    }

    private static func removeTree(_ path: String) {
        for name in (try? Files.names(in: path)) ?? [] {
            let child = "\(path)/\(name.string)"
            if (try? FileStatus.of(child))?.isDirectory == true { removeTree(child) } else { unlink(child) }
        }
        rmdir(path)
    }

    private static func randomBytes(_ count: Int, seed: UInt64) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            var word = seed
            UnsafeMutableRawBufferPointer(buffer).withMemoryRebound(to: UInt64.self) { words in
                for index in words.indices {
                    word = word &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                    words[index] = word ^ word >> 32
                }
            }
            filled = count
        }
    }

    private static func startServer(_ folder: String) throws -> BucketServer {
        var options = BucketServerOptions(directory: folder)
        options.accessKeyID = "TESTKEY"
        options.secretKey = "not a secret"
        let server = try BucketServer(options: options)
        try Thread.detached(name: "test-server") { server.run() }
        return server
    }

    /// The content bytes of uploads that the server has read.
    var receivedBytes: Int64 {
        let counters = server.inspect { $0.statistics.snapshot }
        return ["PUT", "POST", "PATCH"].reduce(past.withLock { $0 }) { $0 + (counters[$1]?.received ?? 0) }
    }

    /// The same, once it is `least`: the server may be behind what its clients got rid of.
    func receivedBytes(atLeast least: Int64) -> Int64 {
        let end = monotonicSeconds() + 30
        while receivedBytes < least, monotonicSeconds() < end { sleepBriefly(milliseconds: 5) }
        return receivedBytes
    }

    var storedContent: [UInt8]? { try? Files.read("\(folder)/bucket/folder/object", limit: 1 << 30) }

    func context(
        _ journal: UploadJournal,
        condition: WriteCondition = .absent,
        cancellation: any Cancellation = CancellationFlag()
    ) throws -> UploadContext {
        let size = Int64(content.count)
        return UploadContext(
            store: store,
            key: key,
            content: try UploadContent(content),
            metadata: ObjectMetadata(contentType: "text/x-test"),
            condition: condition,
            recorder: journal,
            progress: TransferProgress(size: size),
            gate: RequestGate(limit: 8),
            cancellation: cancellation,
            parallelism: 4
        )
    }

    /// Begins a resumable upload with the first MiB of the content, until the journal knows its name.
    ///
    /// A name is lost when the connection is cut before the client has read it: such an upload can be continued by
    /// nobody, and its bytes are sent again. Returns how many those were.
    func begin(
        _ journal: UploadJournal,
        _ run: (UploadContext, UploadJournal) -> UploadResult
    ) throws -> Int64 {
        let piece: Int64 = 1 << 20
        let creation = RequestPattern(method: "PUT")
        let rule = proxy.plan.add(FaultRule(.stall(.request, after: piece), for: creation, times: nil))
        var read: Int64 = 0
        for _ in 0..<100 where journal.state.withLock({ $0.upload == nil }) {
            let flag = CancellationFlag()
            let isOver = try cancel(flag, after: piece)
            _ = run(try context(journal, cancellation: flag), journal)
            isOver.set()
            read += piece
            // What the client still sent must not go on when the rule is gone.
            proxy.cutAll()
        }
        proxy.plan.remove(rule)
        return read - piece
    }

    /// Cancels an attempt once the server has read `count` bytes more, unless the attempt is over; set what it returns
    /// when that is so.
    func cancel(_ flag: CancellationFlag, after count: Int64) throws -> OverFlag {
        let isOver = OverFlag()
        let wanted = receivedBytes + count
        try Thread.detached(name: "test-cancel") { [self] in
            while !isOver.isSet, receivedBytes < wanted { sleepBriefly(milliseconds: 1) }
            flag.cancel()
        }
        return isOver
    }

    /// Runs a driver until the upload is over, beginning another one from the journal after each failure.
    func upload(
        _ journal: UploadJournal,
        attempts: Int = 200,
        _ run: (UploadContext, UploadJournal) -> UploadResult
    ) throws -> UploadResult? {
        for _ in 0..<attempts {
            let result = run(try context(journal), journal)
            guard case .failed(let error) = result, error.isTransient else { return result }
            journal.failures.withLock { $0 += 1 }
            sleepBriefly(milliseconds: 20)
        }
        return nil
    }
}

/// Tells a thread that what it waits for will not come.
final class OverFlag: Sendable {
    private let flag = Atomic<Bool>(false)

    var isSet: Bool { flag.load(ordering: .relaxed) }
    func set() { flag.store(true, ordering: .relaxed) }
}

func sleepBriefly(milliseconds: UInt32) { usleep(milliseconds * 1000) }

/// A journal in memory.
final class UploadJournal: TransferRecorder, Sendable {
    struct State: Sendable {
        var upload: String?
        var interopVersion = 0
        var partSize: Int64 = 0
        var parts: [Int: MultipartState.Part] = [:]
        var acknowledged: Int64 = 0
        var isCommitting = false
    }

    let state = Mutex(State())
    let failures = Mutex(0)

    func beginning(at time: Timestamp) throws(StoreError) {}
    func notBegun() throws(StoreError) {}
    func perhapsBegun(at time: Timestamp) throws(StoreError) {}
    func left(upload: String, interopVersion: Int) throws(StoreError) {}

    func begun(upload: String, interopVersion: Int, partSize: Int64) throws(StoreError) {
        state.withLock { $0 = State(upload: upload, interopVersion: interopVersion, partSize: partSize) }
    }

    func part(number: Int, size: Int64, md5: [UInt8], entityTag: String) throws(StoreError) {
        let part = MultipartState.Part(number: number, size: size, md5: md5, entityTag: entityTag)
        state.withLock { $0.parts[number] = part }
    }

    func acknowledged(_ bytes: Int64) throws(StoreError) { state.withLock { $0.acknowledged = bytes } }
    func answered() {}

    func mayCommit(expectedTag: String?) throws(StoreError) {}
    func committing(expectedTag: String?) throws(StoreError) { state.withLock { $0.isCommitting = true } }

    func resumable(length: Int64) -> ResumableUploadState? {
        state.withLock { state in
            guard let upload = state.upload, let version = InteropVersion(rawValue: state.interopVersion) else {
                return nil
            }
            return ResumableUploadState(resource: upload, version: version, offset: state.acknowledged, length: length)
        }
    }

    var multipart: MultipartState? {
        state.withLock { state in
            state.upload.map {
                MultipartState(uploadID: $0, partSize: state.partSize, parts: Array(state.parts.values))
            }
        }
    }
}
