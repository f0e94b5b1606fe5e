// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Control
import Glibc
import Platform
import Synchronization
import Testing

/// Answers like a flusher that has nothing to do.
private final class EchoHandler: ControlHandler {
    let wakes = Mutex<[String?]>([])

    func handle(_ request: ControlRequest, report: (FlushProgress) -> Bool) -> ControlReply {
        switch request {
        case .wake(let volume):
            wakes.withLock { $0.append(volume) }
            return .done
        case .flush:
            for step in 1...3 {
                let progress = FlushProgress(
                    filesTotal: 3,
                    filesDone: step,
                    bytesTotal: 30,
                    bytesDone: 10,
                    isOffline: false
                )
                guard report(progress) else { break }
            }
            return .flushed(remaining: [])
        case .uploads(let selection, nil) where selection.paths == ["many"]: return .uploads(uploads: Self.many)
        case .uploads: return .failed(reason: "no such volume")
        default: return .done
        }
    }
}

extension EchoHandler {
    /// More than fits into a frame.
    fileprivate static let many = (0..<20_000).map { number in
        UploadReport(
            id: "\(number)",
            volume: "v",
            path: String(repeating: "folder/", count: 140) + "\(number)",
            kind: .put,
            size: 1,
            sent: 0,
            state: .queued,
            waiting: [],
            uploadProtocol: nil,
            attempts: 0,
            nextAttempt: nil,
            resumable: false,
            error: nil
        )
    }
}

@Suite final class ControlTests {
    private let folder: String
    private let handler = EchoHandler()
    private let server: ControlServer

    init() throws {
        folder = "/tmp/moorage-control-\(Randomness.hexadecimal(bytes: 6))"
        try Files.makeDirectories(folder)
        server = try ControlServer(socketPath: folder + "/control.sock", program: "test", handler: handler)
        try server.start()
    }

    deinit {
        server.stop()
        for name in (try? Files.names(in: folder)) ?? [] {
            if unlink("\(folder)/\(name)") != 0 { _ = rmdir("\(folder)/\(name)") }
        }
        _ = rmdir(folder)
    }

    private var paths: ControlPaths {
        ControlPaths(runtimeDirectory: folder, stateLock: folder + "/state.lock", socketNote: folder + "/state.socket")
    }

    private func client() throws -> ControlClient {
        try ControlClient(connectingTo: folder + "/control.sock", program: "test")
    }

    @Test func aRequestIsAnsweredAndTheServerNamesItself() throws {
        let client = try client()
        #expect(client.flusherPID == getpid())
        _ = try client.call(.wake(volume: "abc"))
        #expect(handler.wakes.withLock { $0 } == ["abc"])
        server.stop()
    }

    @Test func aRefusalIsThrownWithItsReason() throws {
        let client = try client()
        do throws(ControlError) {
            _ = try client.call(.uploads(selection: UploadSelection()))
            Issue.record("not refused")
        } catch {
            #expect(error.description == "no such volume")
        }
        server.stop()
    }

    @Test func progressComesBeforeTheEndOfAFlush() throws {
        let client = try client()
        var steps: [Int] = []
        let reply = try client.stream(.flush(selection: UploadSelection(), timeout: nil), timeout: 10) {
            steps.append($0.filesDone)
        }
        guard case .flushed(let remaining) = reply else { return #expect(Bool(false), "no end") }
        #expect(remaining.isEmpty && steps == [1, 2, 3])
        server.stop()
    }

    @Test func subscribersGetEventsInOrder() throws {
        let client = try client()
        _ = try client.call(.subscribe)
        for number in 0..<100 { server.publish(.committed(volume: "v", path: "\(number)")) }
        for number in 0..<100 {
            guard case .committed(_, let path) = try client.nextEvent(timeout: 10) else {
                return #expect(Bool(false), "no event \(number)")
            }
            #expect(path == "\(number)")
        }
        server.stop()
    }

    @Test func aFollowerThatDoesNotReadIsToldHowMuchItMissed() throws {
        let client = try client()
        #expect(!server.isFollowed)
        _ = try client.call(.follow(volumes: []))
        #expect(server.isFollowed)
        // More than its socket and its queue hold.
        let total = 20_000
        for _ in 0..<total { server.publish(.activity(event: TransferEvent(.progress, at: "now", volume: "v"))) }
        var (received, missed) = (0, 0)
        while received + missed < total, case .activity(let event)? = try client.nextEvent(timeout: 10) {
            if event.event == .missed { missed += event.count ?? 0 } else { received += 1 }
        }
        #expect(missed > 0 && received + missed == total)
        _ = try client.call(.wake(volume: nil))
        server.stop()
    }

    @Test func aServerWhoseSocketWasDeletedListensAgain() throws {
        let before = try client()
        try Files.removeIfPresent(folder + "/control.sock")
        try server.listenAgain()
        _ = try client().call(.wake(volume: "new"))
        _ = try before.call(.wake(volume: "old"))
        #expect(handler.wakes.withLock { $0 } == ["new", "old"])
        server.stop()
    }

    @Test func theSocketOfTheStateFolderCountsWhileItsLockIsHeld() throws {
        let elsewhere = ControlPaths(
            runtimeDirectory: folder + "/other",
            stateLock: folder + "/state.lock",
            socketNote: folder + "/state.socket"
        )
        let launcher = FlusherLauncher(paths: elsewhere, executable: "/bin/false")
        try Files.writeAtomically(folder + "/state.socket", Array((folder + "/control.sock").utf8))
        #expect(try launcher.connectIfRunning(program: "x") == nil)
        let lock = try FileLock(acquiring: folder + "/state.lock")
        #expect(try launcher.connect(program: "x").flusherPID == getpid())
        withExtendedLifetime(lock) {}
        server.stop()
    }

    @Test func nobodyListeningIsToldApart() throws {
        server.stop()
        #expect(
            try FlusherLauncher(paths: paths).connectIfRunning(program: "x") == nil
        )
    }

    @Test func aProgramThatEndsAtOnceIsReportedAsNotStarted() throws {
        server.stop()
        let launcher = FlusherLauncher(paths: paths, executable: "/bin/false")
        do throws(ControlError) {
            _ = try launcher.connect(program: "x", timeout: 10)
            Issue.record("connected to /bin/false")
        } catch {
            guard case .notStarted(let reason) = error else { return #expect(Bool(false), "\(error)") }
            #expect(reason.contains("status 1"))
        }
    }

    @Test func garbageAndMissingGreetingsAreRefusedWithoutEndingTheServer() throws {
        let channel = FrameChannel(try UnixSocket.connect(to: folder + "/control.sock"))
        try channel.send(Array("not json".utf8))
        let first = try #require(try channel.receive(timeout: 10))
        #expect(String(decoding: first, as: UTF8.self).contains("unknown request"))
        try channel.send(try JSON.encode(ControlRequestFrame(id: 7, request: .status)))
        let second = try #require(try channel.receive(timeout: 10))
        #expect(String(decoding: second, as: UTF8.self).contains("hello"))
        _ = try client().call(.wake(volume: nil))
        server.stop()
    }

    @Test func aSocketBelowALongPathWorks() throws {
        server.stop()
        let deep = folder + "/" + String(repeating: "d", count: 120)
        try Files.makeDirectories(deep)
        let other = try ControlServer(socketPath: deep + "/control.sock", program: "test", handler: handler)
        try other.start()
        _ = try ControlClient(connectingTo: deep + "/control.sock", program: "test").call(.wake(volume: nil))
        other.stop()
    }

    @Test func absentValuesAreNullInTheReports() throws {
        let waiting = UploadReport.Waiting(reason: "quiet", since: "2026-11-20T00:00:00.000Z", until: nil)
        let upload = UploadReport(
            id: "v-1",
            volume: "v",
            path: "a/b",
            kind: .put,
            size: 1,
            sent: 0,
            state: .waiting,
            waiting: [waiting],
            uploadProtocol: nil,
            attempts: 0,
            nextAttempt: nil,
            resumable: true,
            error: nil
        )
        let text = String(decoding: try JSON.encode(UploadsReport(uploads: [upload])), as: UTF8.self)
        for part in [
            #""until":null"#, #""protocol":null"#, #""next_attempt":null"#, #""error":null"#, #""path":"a/b""#,
        ] {
            #expect(text.contains(part), "\(part) in \(text)")
        }
    }

    @Test func ofAListThatIsTooLongTheBeginningIsTold() throws {
        let client = try client()
        let reply = try client.call(.uploads(selection: UploadSelection(paths: ["many"])))
        guard case .uploads(let uploads, nil) = reply else { throw ControlError.malformed("\(reply)") }
        #expect(uploads.count >= 5000 && uploads.first?.id == "0")
        guard case .done = try client.call(.wake(volume: nil)) else { throw ControlError.malformed("no answer") }
    }
}
