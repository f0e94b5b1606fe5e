// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import HTTPWire
import ResumableUpload
import TestSupport

/// A server of resumable uploads that fails at every place a real one can, driven by a seed.
struct SimulatedServer {
    enum Fate: CaseIterable {
        case answered
        case lostBefore
        case cutInContent
        case lostAfter
        case busy
        case throttled
    }

    /// What goes wrong, in percent of the requests.
    var faultPercent = 0
    var version = InteropVersion.v9
    var limits = UploadLimits()
    /// Answers as swift-nio-extras and tusd do: no word about completion, the upload resource gone at the end.
    var forgetsEnded = false
    var saysNothingAtTheEnd = false
    var generator: SeededGenerator

    var target: [UInt8]?
    /// Commits of whole content at the target.
    private(set) var commits = 0
    private(set) var uploads: [String: [UInt8]] = [:]
    private(set) var ended: Set<String> = []
    private(set) var contentBytes: Int64 = 0
    private(set) var creations = 0
    private(set) var cuts = 0
    /// The condition of creation and completion: the target must hold this.
    var precondition: [UInt8]??

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    static func tag(_ content: [UInt8]) -> String { hexadecimal(fakeDigest(content)) }

    var targetVersion: ObjectVersion? {
        target.map { ObjectVersion(entityTag: EntityTag(opaque: Self.tag($0)), size: Int64($0.count)) }
    }

    /// Loses every upload, as a server with its state in memory does when it is restarted.
    mutating func forgetEverything() {
        uploads = [:]
        ended = []
    }

    /// Answers a request; nil when no answer arrives.
    mutating func serve(
        _ request: ResumableUploadMachine.Request,
        content: [UInt8]
    ) -> ResumableUploadMachine.Response? {
        let url = if case .resource(let url) = request.target { url } else { "http://h/b/k" }
        let faulty = generator.chance(faultPercent)
        let fate = faulty ? Fate.allCases[Int.random(in: 1..<Fate.allCases.count, using: &generator)] : .answered
        let body = request.body.map { Array(content[Int($0.lower)..<Int($0.upper)]) } ?? []
        switch fate {
        case .lostBefore: return nil
        case .busy: return .init(status: 503, fields: HTTPFields(), url: url)
        case .throttled: return .init(status: 429, fields: HTTPFields(), url: url)
        case .cutInContent where request.method == "PATCH" && !body.isEmpty:
            cuts += 1
            receivePart(request, Array(body.prefix(Int.random(in: 0...body.count, using: &generator))), url)
            return nil
        default:
            contentBytes += Int64(body.count)
            var response = answer(request, body, url)
            response.url = url
            return fate == .answered ? response : nil
        }
    }

    private mutating func receivePart(_ request: ResumableUploadMachine.Request, _ part: [UInt8], _ url: String) {
        contentBytes += Int64(part.count)
        guard let stored = uploads[url], !ended.contains(url),
            UploadProtocol.count(request.fields, UploadProtocol.offsetField) == Int64(stored.count)
        else { return }
        uploads[url] = stored + part
    }

    private mutating func answer(
        _ request: ResumableUploadMachine.Request,
        _ body: [UInt8],
        _ url: String
    ) -> ResumableUploadMachine.Response {
        let kind = UploadRequestKind.ofUploadResource(request.fields)
        guard kind == .resumable(version) else {
            return .init(status: 400, fields: UploadReply.refused(version), url: url)
        }
        switch request.method {
        case "OPTIONS": return .init(status: 204, fields: UploadReply.options(version, limits: limits), url: url)
        case "PUT", "POST": return create(request, body, url)
        case "HEAD": return offset(url)
        case "DELETE":
            uploads[url] = nil
            return .init(status: 204, fields: HTTPFields(), url: url)
        default: return append(request, body, url)
        }
    }

    private var preconditionFails: Bool {
        guard let precondition else { return false }
        return target != precondition
    }

    private mutating func create(
        _ request: ResumableUploadMachine.Request,
        _ body: [UInt8],
        _ url: String
    ) -> ResumableUploadMachine.Response {
        guard UploadRequestFields(creation: request.fields, version: version)?.completes == false, body.isEmpty else {
            return .init(status: 400, fields: HTTPFields(), url: url)
        }
        if preconditionFails { return .init(status: 412, fields: HTTPFields(), url: url) }
        creations += 1
        let location = "/up/\(creations)"
        uploads["http://h" + location] = []
        let state = UploadReply.State(offset: 0, isComplete: false, limits: limits)
        return .init(status: 201, fields: UploadReply.created(version, location: location, state: state), url: url)
    }

    private func offset(_ url: String) -> ResumableUploadMachine.Response {
        guard let stored = uploads[url] else { return .init(status: 404, fields: HTTPFields(), url: url) }
        let state = UploadReply.State(
            offset: Int64(stored.count),
            isComplete: ended.contains(url),
            limits: limits
        )
        return .init(status: 204, fields: UploadReply.offset(version, state: state), url: url)
    }

    private mutating func append(
        _ request: ResumableUploadMachine.Request,
        _ body: [UInt8],
        _ url: String
    ) -> ResumableUploadMachine.Response {
        guard let stored = uploads[url], !ended.contains(url) else {
            return .init(status: 404, fields: HTTPFields(), url: url)
        }
        guard let asked = UploadRequestFields(append: request.fields, version: version),
            UploadRequestFields.hasMediaType(request.fields, version: version)
        else { return .init(status: 400, fields: HTTPFields(), url: url) }
        guard asked.offset == Int64(stored.count) else {
            var fields = UploadReply.refused(version)
            fields[UploadProtocol.offsetField] = String(stored.count)
            return .init(status: 409, fields: fields, url: url)
        }
        if let most = limits.maxAppendSize, Int64(body.count) > most {
            return .init(status: 413, fields: UploadReply.refused(version), url: url)
        }
        uploads[url] = stored + body
        guard asked.completes else {
            let state = UploadReply.State(offset: Int64(stored.count + body.count), isComplete: false, limits: limits)
            let status = version.incompleteAppendStatus
            return .init(status: status, fields: UploadReply.incomplete(version, state: state), url: url)
        }
        return complete(url)
    }

    private mutating func complete(_ url: String) -> ResumableUploadMachine.Response {
        let content = uploads[url] ?? []
        ended.insert(url)
        if forgetsEnded { uploads[url] = nil }
        var fields = HTTPFields()
        let fails = preconditionFails
        if !fails {
            target = content
            precondition = nil
            commits += 1
            fields["ETag"] = "\"\(Self.tag(content))\""
        }
        if saysNothingAtTheEnd { return .init(status: fails ? 412 : 204, fields: HTTPFields(), url: url) }
        UploadReply.markFinal(&fields, version: version, offset: Int64(content.count))
        return .init(status: fails ? 412 : 200, fields: fields, url: url)
    }
}
