// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import CurlTransport
import Glibc
import HTTPWire
import ObjectStore
import Platform
import Synchronization
import TestSupport
import Testing

@testable import Stores

/// A web server whose answers a closure writes, and a store on its folder `/v/`.
private final class Scene: Sendable {
    let server: StubServer
    let store: HTTPStore
    let requests = Monitor<[String]>([])
    private let spool = "/tmp/moorage-web-\(Randomness.hexadecimal(bytes: 8))"

    init(
        credentials: HTTPCredentials? = nil,
        _ answer: @escaping @Sendable (_ method: String, _ path: String, _ head: MessageHead) -> Answer
    ) throws {
        signal(SIGPIPE, SIG_IGN)
        let requests = requests
        server = try StubServer { head, _ in
            let login = head.value(of: "Authorization").map { " [\($0)]" } ?? ""
            let range = head.value(of: "Range").map { " \($0)" } ?? ""
            requests.update { $0.append("\(head.method) \(head.path)\(range)\(login)") }
            return answer(head.method, head.path, head).bytes(isHead: head.method == "HEAD")
        }
        let root = try #require(WebURL("http://\(server.address)/v/"))
        var configuration = HTTPStoreConfiguration(root: root, spoolDirectory: spool)
        configuration.credentials = credentials
        store = HTTPStore(configuration: configuration, transport: try CurlTransport())
    }

    deinit {
        server.stop()
        rmdir(spool)
    }

    func read(_ key: String, _ version: ObjectVersion, _ range: ByteRange) throws -> [UInt8] {
        let sink = Collector()
        let fetch = store.fetch(ObjectKey(key), version: version, range: range, into: sink)
        return try withExtendedLifetime(fetch) { try sink.wait() }
    }

    func status(_ key: String) throws -> ObjectVersion {
        try store.status(of: ObjectKey(key), cancellation: nil).version
    }
}

private struct Answer: Sendable {
    var status = 200
    var fields: [(String, String)] = []
    var body: [UInt8] = []

    func bytes(isHead: Bool) -> [UInt8] {
        var lines = ["HTTP/1.1 \(status) Word"]
        if !fields.contains(where: { $0.0 == "Content-Length" }) { lines.append("Content-Length: \(body.count)") }
        lines += fields.filter { !$0.1.isEmpty }.map { "\($0.0): \($0.1)" }
        return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8) + (isHead ? [] : body)
    }
}

private final class Collector: RangeSink {
    private let state = Monitor((bytes: [UInt8](), next: Int64?.none, result: Result<Void, StoreError>?.none))

    func received(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        state.inspect { state in
            #expect(state.next == nil || state.next == offset)
            state.bytes += Array(bytes)
            state.next = offset + Int64(bytes.count)
        }
    }

    func finished(_ result: Result<Void, StoreError>) {
        state.update { state in
            #expect(state.result == nil)
            state.result = result
        }
    }

    func wait() throws -> [UInt8] {
        let end = state.wait(timeout: 20) { state in state.result.map { ($0, state.bytes) } }
        let (result, bytes) = try #require(end)
        try result.get()
        return bytes
    }
}

private let content: [UInt8] = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ ($0 >> 8) &* 7) }
private let old = "Sun, 13 Sep 2020 12:26:40 GMT"

/// The fields of a file's answers.
private func about(tag: String? = "\"one\"", modified: String? = old) -> [(String, String)] {
    [("Date", "Mon, 14 Sep 2020 12:26:40 GMT")] + (tag.map { [("ETag", $0)] } ?? [])
        + (modified.map { [("Last-Modified", $0)] } ?? [])
}

/// Answers as a server with ranges does.
private func ranged(_ head: MessageHead, _ body: [UInt8], _ fields: [(String, String)]) -> Answer {
    guard let value = head.value(of: "Range"), let dash = value.firstIndex(of: "-"),
        let first = Int(value[..<dash].dropFirst("bytes=".count)), let last = Int(value[value.index(after: dash)...]),
        head.value(of: "If-Range").map({ wanted in fields.contains { $0.1 == wanted } }) ?? true
    else { return Answer(fields: fields, body: body) }
    let end = min(last, body.count - 1)
    let range = ("Content-Range", "bytes \(first)-\(end)/\(body.count)")
    return Answer(status: 206, fields: fields + [range], body: Array(body[first...end]))
}

@Suite struct HTTPStoreTests {
    @Test(arguments: [("\"one\"", "\"one\""), (nil, old)] as [(String?, String)])
    func rangesCarryTheStrongValidator(tag: String?, validator: String) throws {
        let seen = Monitor<[String]>([])
        let scene = try Scene { _, _, head in
            if let value = head.value(of: "If-Range") { seen.update { $0.append(value) } }
            return ranged(head, content, about(tag: tag))
        }
        let version = try scene.status("f")
        #expect(try scene.read("f", version, ByteRange(5_000, 9_000)) == Array(content[5_000..<9_000]))
        #expect(seen.inspect { $0 } == [validator])
    }

    @Test(arguments: [about(tag: "\"two\""), about(tag: nil), about(tag: "\"one\"") + [("Content-Encoding", "gzip")]])
    func anotherVersionOrCodingIsRefused(fields: [(String, String)]) throws {
        let scene = try Scene { method, _, head in
            method == "HEAD" ? Answer(fields: about(), body: content) : ranged(head, content, fields)
        }
        let version = try scene.status("f")
        #expect(throws: StoreError.self) { _ = try scene.read("f", version, ByteRange(100, 200)) }
    }

    @Test(arguments: [
        ("bytes 0-99/100000", "100"), ("bytes 100-299/100000", "200"), ("bytes 100-199/99999", "100"),
        ("bytes 100-199/100000", "99"), ("bytes 100-199/100000", "101"), ("items 100-199/100000", "100"),
    ])
    func answersThatContradictThemselvesAreRefused(range: String, length: String) throws {
        let scene = try Scene { method, _, head in
            if method == "HEAD" { return Answer(fields: about(), body: content) }
            let body = Array(content[100..<(100 + (Int(length) ?? 0))])
            return Answer(status: 206, fields: about() + [("Content-Range", range)], body: body)
        }
        let version = try scene.status("f")
        #expect(throws: StoreError.self) { _ = try scene.read("f", version, ByteRange(100, 200)) }
    }

    @Test func severalPartsInOneAnswerAreRefused() throws {
        let scene = try Scene { method, _, _ in
            if method == "HEAD" { return Answer(fields: about(), body: content) }
            let type = ("Content-Type", "multipart/byteranges; boundary=x")
            return Answer(status: 206, fields: about() + [type, ("Content-Range", "bytes 100-199/100000")], body: [1])
        }
        let version = try scene.status("f")
        #expect(throws: StoreError.self) { _ = try scene.read("f", version, ByteRange(100, 200)) }
    }

    @Test func aServerWithoutRangesIsReadOnceAsAWhole() throws {
        let scene = try Scene { _, _, _ in Answer(fields: about(), body: content) }
        let version = try scene.status("f")
        for lower in [50_000, 90_000, 0, 10_000] as [Int64] {
            let range = ByteRange(lower, lower + 10_000)
            #expect(try scene.read("f", version, range) == Array(content[Int(lower)..<Int(lower) + 10_000]))
        }
        // One that showed it, and one whole; the rest came from that.
        #expect(scene.requests.inspect { $0.filter { $0.hasPrefix("GET") }.count } == 2)
    }

    @Test(arguments: [
        about(tag: "W/\"one\""), about(tag: nil, modified: nil), about(modified: "Mon, 14 Sep 2020 12:26:39 GMT"),
    ])
    func weakFilesComeFromOneAnswer(fields: [(String, String)]) throws {
        let answers = Atomic(0)
        let scene = try Scene { method, _, head in
            #expect(head.value(of: "Range") == nil && head.value(of: "If-Range") == nil)
            // The server's bytes change without its validators doing so.
            let number = method == "GET" ? answers.add(1, ordering: .relaxed).newValue : 0
            return Answer(fields: fields, body: [UInt8](repeating: UInt8(number), count: 50_000))
        }
        let version = try scene.status("f")
        #expect(version.entityTag?.isWeak == true)
        for lower in [0, 20_000, 40_000] as [Int64] {
            #expect(
                try scene.read("f", version, ByteRange(lower, lower + 10_000)) == [UInt8](repeating: 1, count: 10_000)
            )
        }
        #expect(answers.load(ordering: .relaxed) == 1)
        // What was read under it is gone: so is the version.
        scene.store.forget(ObjectKey("f"))
        #expect(throws: StoreError.self) { _ = try scene.read("f", version, ByteRange(0, 10)) }
        let next = try scene.status("f")
        #expect(next != version)
        #expect(try scene.read("f", next, ByteRange(0, 10)) == [UInt8](repeating: 2, count: 10))
    }

    @Test func aWeakFileThatChangedBeforeItsAnswerIsRefused() throws {
        let scene = try Scene { method, _, _ in
            let tag = method == "HEAD" ? "W/\"one\"" : "W/\"two\""
            return Answer(fields: about(tag: tag), body: content)
        }
        let version = try scene.status("f")
        let failure = #expect(throws: StoreError.self) { _ = try scene.read("f", version, ByteRange(0, 10)) }
        #expect(failure?.cause == .preconditionFailed)
    }

    @Test func aLengthThatHEADLeavesOutIsAskedFor() throws {
        let scene = try Scene { method, path, head in
            guard method == "HEAD" else {
                return path == "/v/empty" ? Answer(status: 416) : ranged(head, content, about())
            }
            return Answer(fields: about() + [("Content-Length", "")], body: content)
        }
        #expect(try scene.status("f").size == 100_000)
        #expect(try scene.status("empty").size == 0)
    }
}

@Suite struct HTTPStoreRedirectTests {
    @Test func aLoginGoesToItsOwnOriginOnly() throws {
        let other = try Scene { _, _, head in ranged(head, content, about()) }
        let scene = try Scene(credentials: .basic(user: "u", password: "p")) {
            [address = other.server.address] _, path, _ in
            path == "/v/f"
                ? Answer(status: 302, fields: [("Location", "/v/g")])
                : Answer(status: 307, fields: [("Location", "http://\(address)/x")])
        }
        let version = try scene.status("f")
        #expect(try scene.read("f", version, ByteRange(10, 20)) == Array(content[10..<20]))
        #expect(scene.requests.inspect { $0 }.allSatisfy { $0.hasSuffix("[Basic dTpw]") })
        #expect(other.requests.inspect { $0 } == ["HEAD /x", "GET /x bytes=10-19"])
    }

    @Test func circlesEnd() throws {
        let scene = try Scene { _, _, _ in Answer(status: 302, fields: [("Location", "/v/f")]) }
        let failure = #expect(throws: StoreError.self) { _ = try scene.status("f") }
        #expect(failure?.cause == .redirected)
        #expect(scene.requests.inspect { $0.count } == Redirection.limit + 1)
        let version = ObjectVersion(entityTag: EntityTag(opaque: "x"), size: 100)
        #expect(throws: StoreError.self) { _ = try scene.read("f", version, ByteRange(0, 10)) }
    }

    @Test func aNameThatLeadsToItselfWithASlashIsAFolder() throws {
        let scene = try Scene { _, path, _ in
            path == "/v/d" ? Answer(status: 301, fields: [("Location", "/v/d/")]) : Answer(status: 403)
        }
        let failure = #expect(throws: StoreError.self) { _ = try scene.status("d") }
        #expect(failure?.cause == .notFound)
        _ = try scene.status("d/")
    }

    @Test func aMissingLoginSaysWhatToDo() throws {
        let scene = try Scene { _, _, _ in Answer(status: 401) }
        let failure = #expect(throws: StoreError.self) { try scene.store.check() }
        #expect(failure?.cause == .authentication && failure?.message.contains(".netrc") == true)
    }
}

@Suite struct HTTPStoreListingTests {
    @Test func listingsNeverPassForEmptyFolders() throws {
        let status = Atomic(500)
        let scene = try Scene { method, path, _ in
            if method == "PROPFIND" { return Answer(status: 405) }
            if path == "/v/" { return Answer(fields: [("Content-Type", "application/json")], body: Array("[]".utf8)) }
            return Answer(status: status.load(ordering: .relaxed))
        }
        #expect(try scene.store.list(.root, recursive: false, continuation: nil).entries.isEmpty)
        for (code, cause) in [(403, .unsupported), (401, .authentication), (404, .rejected)]
            as [(Int, StoreError.Cause)]
        {
            status.store(code, ordering: .relaxed)
            let failure = #expect(throws: StoreError.self) {
                _ = try scene.store.list(ObjectKey("d"), recursive: false, continuation: nil)
            }
            #expect(failure?.cause == cause)
        }
    }

    @Test func aServerThatListsNothingIsKnownByTheRoot() throws {
        let scene = try Scene { _, _, _ in Answer(status: 404) }
        try scene.store.check()
        #expect(!scene.store.canList)
        let failure = #expect(throws: StoreError.self) {
            _ = try scene.store.list(ObjectKey("d"), recursive: false, continuation: nil)
        }
        #expect(failure?.cause == .unsupported)
    }

    @Test func aVersionSeenBeforeIsKnownInALaterListing() throws {
        let scene = try Scene { method, path, head in
            if method == "PROPFIND" { return Answer(status: 501) }
            guard path == "/v/" else { return ranged(head, content, about()) }
            let page = "[{\"name\":\"f\",\"type\":\"file\",\"mtime\":\"\(old)\",\"size\":100000}]"
            return Answer(fields: [("Content-Type", "application/json")], body: Array(page.utf8))
        }
        let first = try scene.store.list(.root, recursive: false, continuation: nil)
        #expect(first.entries.first?.version.entityTag == nil)
        let version = try scene.status("f")
        let second = try scene.store.list(.root, recursive: false, continuation: nil)
        #expect(second.entries.first?.version == version && version.entityTag != nil)
    }

    @Test func nothingIsEverWritten() throws {
        let scene = try Scene { _, _, _ in Answer() }
        #expect(throws: StoreError.self) { try scene.store.delete(ObjectKey("f"), condition: .none) }
        #expect(scene.requests.inspect { $0.isEmpty })
    }
}
