// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Conditions
import Configuration
import Control
import Flusher
import Glibc
import Journal
import ObjectStore
import Platform
import Testing

/// A flusher in this process over directories of its own, with a volume whose remote is in memory.
final class FlusherFixture: Sendable {
    let folder: String
    let directories: Directories
    let description: VolumeDescription
    let store: FakeStore
    let journal: Journal
    /// As a mount holds it, so that no flusher recovers what is being written.
    private let lock: FileLock?
    private let status = Monitor<Int32?>(nil)

    init(
        store: FakeStore,
        uploadProtocol: String = "auto",
        partSize: Int64? = nil,
        quietPeriod: Double = 0,
        lateRequests: Double = 0.5
    ) throws {
        if getenv("MOORAGE_TEST_LOG") != nil { Log.level = .debug }
        folder = "/tmp/moorage-flusher-\(Randomness.hexadecimal(bytes: 6))"
        directories = Directories(
            configuration: folder + "/config",
            state: folder + "/state",
            cache: folder + "/cache",
            runtime: folder + "/run"
        )
        try directories.prepare()
        var description = try VolumeDescription(bucket: "b", prefix: "", values: OptionValues(), environment: [:])
        description.uploadProtocol = uploadProtocol
        description.partSize = partSize
        description.quietPeriod = quietPeriod
        description.lateRequests = lateRequests
        self.description = description
        self.store = store
        let places = directories.places(of: description)
        try places.prepare()
        try description.save(to: places.description)
        lock = try FileLock(acquiring: places.mountLock, tellsToken: true)
        journal = try Journal.recovering(directory: places.state).journal
    }

    /// Starts the flusher on a thread of its own and waits until it answers.
    func start(
        idle: Double? = nil,
        conditions: (any ConditionSource)? = nil,
        readerPatience: ReaderWait.Patience = ReaderWait.Patience()
    ) throws -> ControlClient {
        var options = FlusherOptions(directories: directories, exitWhenIdle: idle, host: "here")
        options.conditions = conditions
        options.readerPatience = readerPatience
        let (store, chosen) = (store, options)
        status.update { $0 = nil }
        try Thread.detached(name: "flusher") { [status] in
            let code = FlusherProcess.run(options: chosen) { _, _ in store }
            status.update { $0 = code }
        }
        for _ in 0..<3000 {
            if let client = try? ControlClient(connectingTo: directories.controlSocket, program: "test") {
                return client
            }
            usleep(10_000)
        }
        throw ControlError.timeout
    }

    /// Waits for the flusher's end.
    func waitForEnd(timeout: Double = 30) -> Int32? { status.wait(timeout: timeout) { $0 } }

    func stop(_ client: ControlClient) throws {
        _ = try client.call(.stop)
        #expect(waitForEnd() == 0)
    }

    /// Everything that is pending becomes remote, or what is left is given.
    func flush(_ client: ControlClient, paths: [String] = [], timeout: Double = 60) throws -> [UploadReport] {
        let volumes = paths.isEmpty ? [] : [description.id]
        let selection = UploadSelection(volumes: volumes, paths: paths)
        let reply = try client.stream(.flush(selection: selection, timeout: timeout), timeout: timeout + 30) { _ in }
        guard case .flushed(let remaining) = reply else { throw ControlError.malformed("\(reply)") }
        return remaining
    }

    func remove() {
        _ = try? Files.names(in: folder)
        let pid = try? ChildProcess.spawnDetached("/bin/rm", ["-r", folder])
        if let pid { waitpid(pid, nil, 0) }
    }

    // MARK: what a mount would do

    static let attributes = FileAttributes(
        mode: 0o100644,
        uid: 1000,
        gid: 1000,
        modified: Timestamp(seconds: 1_700_000_000)
    )

    /// Creates or rewrites a file and closes it.
    @discardableResult
    func write(_ path: String, _ bytes: [UInt8], remote: RemoteState = .absent) throws -> JournalNode {
        let key = ObjectKey(path)
        var node: JournalNode
        if let old = try journal.node(at: key), !old.isTombstone {
            node = try journal.beginWriting(at: key, remote: remote)
        } else if case .file = remote {
            node = try journal.beginWriting(at: key, remote: remote)
        } else {
            node = try journal.createFile(at: key, attributes: Self.attributes, remote: remote)
        }
        let generation = try #require(node.generation)
        var content = generation.content
        content.truncate(to: 0)
        if !bytes.isEmpty {
            let file = try journal.openStaging(generation.id, creating: true)
            try file.truncate(to: 0)
            try bytes.withUnsafeBytes { try file.write($0, at: 0) }
            content.write(ByteRange(0, Int64(bytes.count)))
        }
        let isSealed = try journal.seal(node.id, generation.id, content: content, modified: Self.attributes.modified)
        #expect(isSealed)
        node = try #require(try journal.node(at: key))
        // Only then the flusher takes it.
        try journal.synchronizeSealed()
        return node
    }

    func pending() throws -> [JournalNode] { try journal.pendingNodes() }
}
