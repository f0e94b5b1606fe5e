// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import BucketServer
import CurlTransport
import Digests
import Glibc
import ObjectStore
import Platform
import Stores
import Synchronization
import TestSupport

/// A store on a bucket of our own server, through the fault proxy; `MOORAGE_TEST_S3` names another server.
///
/// Its form is `endpoint,access key,secret key,bucket`, the bucket existing and empty enough.
final class StoreFixture: @unchecked Sendable {
    static let external = getenv("MOORAGE_TEST_S3").map { String(cString: $0).split(separator: ",").map(String.init) }

    let directory: String
    let proxy: FaultProxy
    let store: S3Store
    let endpoint: String
    let transport: CurlTransport
    private let server: BucketServer?
    private let makeStore: () throws -> S3Store

    init(
        prefix: String = "vol/\(Randomness.hexadecimal(bytes: 4))/",
        _ adjust: (inout S3StoreConfiguration) -> Void = { _ in }
    ) throws {
        // The server lives in this process and writes to connections that tests cut.
        signal(SIGPIPE, SIG_IGN)
        directory = "/tmp/moorage-store-\(Randomness.hexadecimal(bytes: 8))"
        try Files.makeDirectories(directory)
        var upstream: TestSupport.SocketAddress
        var key = ("AKIATESTTESTTESTTEST", "secretsecretsecretsecretsecretsecret0000", "bucket")
        if let external = Self.external {
            let authority = String(external[0].dropFirst("http://".utf8.count))
            upstream = TestSupport.SocketAddress(authority) ?? TestSupport.SocketAddress(port: 1)
            key = (external[1], external[2], external[3])
            server = nil
        } else {
            try Files.makeDirectories(directory + "/bucket")
            var options = BucketServerOptions(directory: directory)
            options.accessKeyID = key.0
            options.secretKey = key.1
            options.syncs = false
            let server = try BucketServer(options: options)
            try Thread.detached(name: "bucket") { server.run() }
            self.server = server
            upstream = TestSupport.SocketAddress(port: server.port)
        }
        proxy = try FaultProxy(upstream: upstream)
        endpoint = "http://\(proxy.address)"
        transport = try CurlTransport()
        var configuration = S3StoreConfiguration(
            endpoint: endpoint,
            bucket: key.2,
            prefix: ObjectKey(prefix)
        )
        adjust(&configuration)
        let credentials = StaticCredentials(accessKeyID: key.0, secretAccessKey: key.1)
        makeStore = { [configuration, transport] in
            try S3Store(configuration: configuration, credentials: credentials, transport: transport)
        }
        store = try makeStore()
    }

    /// One more over the same bucket.
    func anotherStore() throws -> S3Store { try makeStore() }

    deinit {
        proxy.stop()
        server?.stop()
        Self.remove(directory)
    }

    private static func remove(_ path: String) {
        if let status = try? FileStatus.of(path), status.isDirectory {
            for name in (try? Files.names(in: path)) ?? [] { remove("\(path)/\(name.string)") }
            try? Files.removeDirectory(path)
        } else {
            try? Files.removeIfPresent(path)
        }
    }

    /// A body of these bytes in a file that stays open as long as the fixture.
    func body(_ bytes: [UInt8]) throws -> UploadBody {
        let path = "\(directory)/body-\(Randomness.hexadecimal(bytes: 6))"
        let file = try FileDescriptor.open(path, O_RDWR | O_CREAT)
        try file.write(bytes)
        return UploadBody(descriptor: file.detach(), range: ByteRange(0, Int64(bytes.count)))
    }

    @discardableResult
    func put(
        _ key: String,
        _ bytes: [UInt8],
        metadata: ObjectMetadata = ObjectMetadata(),
        condition: WriteCondition = .none
    ) throws -> ObjectVersion {
        try store.put(
            ObjectKey(key),
            body: body(bytes),
            metadata: metadata,
            condition: condition,
            progress: nil,
            cancellation: nil
        )
    }

    /// Reads a range and waits for its end.
    func read(_ key: String, _ version: ObjectVersion, _ range: ByteRange) throws(StoreError) -> [UInt8] {
        let sink = CollectingSink(range.lower)
        let fetch = store.fetch(ObjectKey(key), version: version, range: range, into: sink)
        return try withExtendedLifetime(fetch) { () throws(StoreError) in try sink.wait() }
    }
}

/// Gathers what a ranged read delivers, checking that it comes in order.
final class CollectingSink: RangeSink {
    private let state: Monitor<(bytes: [UInt8], next: Int64, result: Result<Void, StoreError>?)>

    init(_ start: Int64) {
        state = Monitor(([], start, nil))
    }

    func received(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        state.update { state in
            precondition(offset == state.next && state.result == nil, "bytes out of order")
            state.bytes.append(contentsOf: bytes)
            state.next += Int64(bytes.count)
        }
    }

    func finished(_ result: Result<Void, StoreError>) {
        state.update { state in
            precondition(state.result == nil, "finished twice")
            state.result = result
        }
    }

    var count: Int { state.inspect { $0.bytes.count } }

    func wait() throws(StoreError) -> [UInt8] {
        guard let (bytes, result) = state.wait(timeout: 60, until: { state in state.result.map { (state.bytes, $0) } })
        else { throw StoreError(.cancelled, "the test waited for a minute") }
        if case .failure(let error) = result { throw error }
        return bytes
    }
}

/// The cause of the error a closure throws, nil when it throws none.
func cause(_ body: () throws -> Void) -> StoreError.Cause? {
    do {
        try body()
        return nil
    } catch {
        return (error as? StoreError)?.cause
    }
}

/// Bytes that differ everywhere.
func pattern(_ count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7 ^ $0 >> 8 ^ $0 >> 16) }
}
