// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import BucketServer
import Glibc
import HTTPWire
import Platform
import Synchronization
import Testing

/// Takes whole content and remembers it.
private final class RecordingHandler: HTTPRequestHandler {
    struct Taken: Sendable {
        var request: HTTPRequest
        var content: [UInt8]
    }

    let taken = Mutex<[Taken]>([])
    let status = Mutex(200)

    func handle(_ request: HTTPRequest, body: any HTTPRequestBody, responder: any HTTPResponder) {
        guard request.method != "HEAD" else { return responder.send(404, HTTPFields(), .none) }
        var content: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 100)
        while let count = try? buffer.withUnsafeMutableBytes({ try body.read(into: $0) }), count > 0 {
            content += buffer[..<count]
        }
        let whole = content
        taken.withLock { $0.append(Taken(request: request, content: whole)) }
        responder.send(status.withLock { $0 }, HTTPFields([.init(name: "ETag", value: "\"tag\"")]), .none)
    }
}

private struct Doorkeeper: HTTPRequestAuthorizer {
    func refusal(of request: HTTPRequest) -> HTTPAnswer? {
        request.fields["Authorization"] == "good" ? nil : HTTPAnswer(403)
    }
}

/// Content from memory.
private final class MemoryBody: HTTPRequestBody, @unchecked Sendable {
    private let content: [UInt8]
    private(set) var bytesRead: Int64 = 0
    var declaredLength: Int64? { Int64(content.count) }
    var trailers: HTTPFields { HTTPFields() }
    var isComplete: Bool { bytesRead == Int64(content.count) }

    init(_ content: [UInt8]) { self.content = content }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(HTTPBodyError) -> Int {
        let rest = content[Int(bytesRead)...].prefix(buffer.count)
        buffer.copyBytes(from: rest)
        bytesRead += Int64(rest.count)
        return rest.count
    }

    func interrupt() {}
}

private final class MemoryResponder: HTTPResponder, @unchecked Sendable {
    private(set) var interim: [(status: Int, fields: HTTPFields)] = []
    private(set) var final: (status: Int, fields: HTTPFields)?
    var hasSentFinal: Bool { final != nil }
    func sendInformational(_ status: Int, _ fields: HTTPFields) { interim.append((status, fields)) }
    func send(_ status: Int, _ fields: HTTPFields, _ body: HTTPResponseBody) { final = final ?? (status, fields) }
}

@Suite final class ResumableUploadHandlerTests {
    private let folder = "/tmp/moorage-resumable-\(Randomness.hexadecimal(bytes: 6))"
    private let plain = RecordingHandler()

    deinit {
        for name in (try? Files.names(in: folder)) ?? [] { try? Files.removeIfPresent("\(folder)/\(name.string)") }
        try? Files.removeDirectory(folder)
    }

    private func handler(_ limits: ResumableUploadLimits = ResumableUploadLimits()) throws -> ResumableUploadHandler {
        try ResumableUploadHandler(wrapping: plain, authorizer: Doorkeeper(), directory: folder, limits: limits)
    }

    @discardableResult
    private func ask(
        _ handler: ResumableUploadHandler,
        _ method: String,
        _ target: String,
        _ pairs: KeyValuePairs<String, String> = [:],
        _ content: String = "",
        authorization: String = "good"
    ) -> MemoryResponder {
        var fields = HTTPFields(pairs.map { HTTPFields.Field(name: $0.key, value: $0.value) })
        fields["Authorization"] = authorization
        let request = HTTPRequest(
            method: method,
            target: target,
            path: Array(target.utf8),
            query: [],
            fields: fields,
            peer: "test",
            isLoopback: true
        )
        let responder = MemoryResponder()
        handler.handle(request, body: MemoryBody(Array(content.utf8)), responder: responder)
        return responder
    }

    private func create(_ handler: ResumableUploadHandler, _ content: String = "") -> String? {
        ask(handler, "PUT", "/b/k", ["Upload-Complete": "?0", "X-Kept": "yes"], content).final?.fields["Location"]
    }

    private func append(
        _ handler: ResumableUploadHandler,
        _ url: String,
        _ offset: Int,
        _ content: String
    ) -> MemoryResponder {
        ask(
            handler,
            "PATCH",
            url,
            [
                "Upload-Complete": "?1", "Upload-Offset": "\(offset)",
                "Content-Type": "application/partial-upload",
            ],
            content
        )
    }

    @Test func thePlainHandlerSeesOnePlainRequest() throws {
        let handler = try handler()
        let url = try #require(create(handler, "hello "))
        #expect(append(handler, url, 6, "world").final?.status == 200)
        let taken = plain.taken.withLock { $0 }
        #expect(taken.count == 1)
        let request = try #require(taken.first?.request)
        #expect(taken.first?.content == Array("hello world".utf8))
        #expect(request.method == "PUT" && request.target == "/b/k" && request.isAuthorized)
        #expect(request.fields["X-Kept"] == "yes")
        #expect(request.fields.fields.allSatisfy { !$0.name.hasPrefix("Upload-") && $0.name != "Authorization" })
    }

    @Test func everyRequestNeedsAuthority() throws {
        let handler = try handler()
        let url = try #require(create(handler))
        for method in ["HEAD", "PATCH", "DELETE"] {
            #expect(ask(handler, method, url, authorization: "bad").final?.status == 403)
        }
        #expect(ask(handler, "PUT", "/b/k", ["Upload-Complete": "?1"], authorization: "bad").final?.status == 403)
        #expect(ask(handler, "HEAD", url).final?.status == 204)
    }

    @Test func openUploadsAreLimitedAndEndedOnesDoNotCount() throws {
        var limits = ResumableUploadLimits()
        limits.openUploads = 2
        let handler = try handler(limits)
        let first = try #require(create(handler))
        #expect(create(handler) != nil)
        let refused = ask(handler, "PUT", "/b/k", ["Upload-Complete": "?0"])
        #expect(refused.final?.status == 429 && refused.final?.fields["Retry-After"] != nil)
        #expect(append(handler, first, 0, "x").final?.status == 200)
        #expect(create(handler) != nil)
    }

    @Test func theOldestEndedUploadsAreForgottenFirst() throws {
        var limits = ResumableUploadLimits()
        limits.endedUploads = 10
        let handler = try handler(limits)
        let urls = try (0..<12).map { _ in try #require(create(handler)) }
        for url in urls { #expect(append(handler, url, 0, "x").final?.status == 200) }
        #expect(create(handler) != nil)
        let answering = urls.count { ask(handler, "HEAD", $0).final?.status == 204 }
        #expect((9...10).contains(answering))
    }

    @Test func sizesAreLimited() throws {
        var limits = ResumableUploadLimits()
        limits.maxSize = 10
        limits.maxAppendSize = 4
        let handler = try handler(limits)
        let options = ask(handler, "OPTIONS", "/b/k", authorization: "none")
        #expect(options.final?.fields["Upload-Limit"]?.contains("max-size=10, max-append-size=4") == true)
        let url = try #require(create(handler, "1234"))
        #expect(append(handler, url, 4, "56789").final?.status == 413)
        #expect(ask(handler, "HEAD", url).final?.fields["Upload-Offset"] == "4")
        let tooLong = ask(handler, "PUT", "/b/k", ["Upload-Complete": "?0", "Upload-Length": "11"])
        #expect(tooLong.final?.status == 413)
    }

    @Test func uploadsEndWithTheirLife() throws {
        var limits = ResumableUploadLimits()
        limits.idleLife = -1
        let handler = try handler(limits)
        let url = try #require(create(handler))
        #expect(ask(handler, "HEAD", url).final?.status == 404)
        #expect(try Files.names(in: folder).isEmpty)
    }

    @Test func aFailingTargetKeepsTheBytesForAnotherTry() throws {
        let handler = try handler()
        let url = try #require(create(handler, "content"))
        plain.status.withLock { $0 = 503 }
        let failed = append(handler, url, 7, "")
        #expect(failed.final?.status == 503)
        #expect(failed.final?.fields["Upload-Complete"] == "?0")
        plain.status.withLock { $0 = 200 }
        #expect(append(handler, url, 7, "").final?.fields["Upload-Complete"] == "?1")
        #expect(plain.taken.withLock { $0.map(\.content) } == [Array("content".utf8), Array("content".utf8)])
    }

    @Test func aNewServerTakesUpWhatIsThereAndSweepsTheRest() throws {
        let first = try handler()
        let url = try #require(create(first, "hello "))
        let ended = try #require(create(first))
        #expect(append(first, ended, 0, "x").final?.status == 200)
        try Files.writeAtomically("\(folder)/0123.data", [1])
        try Files.writeAtomically("\(folder)/4567.upload", Array("moorage-upload 1\nmethod PUT\n".utf8))
        let second = try handler()
        #expect(ask(second, "HEAD", url).final?.fields["Upload-Offset"] == "6")
        #expect(append(second, ended, 1, "").final?.fields["ETag"] == "\"tag\"")
        #expect(append(second, url, 6, "world").final?.status == 200)
        let names = try Files.names(in: folder).map(\.string)
        #expect(names.allSatisfy { $0.hasSuffix(".upload") && !$0.hasPrefix("4567") })
    }
}
