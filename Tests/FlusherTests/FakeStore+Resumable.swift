// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import HTTPWire
import ObjectStore
import Synchronization

/// Resumable uploads, interop version 6 and later, in the few words the tests need.
extension FakeStore {
    func exchange(
        _ exchange: UploadExchange,
        informational: (@Sendable (Int, HTTPFields) -> Void)?,
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> UploadExchangeResponse {
        let url: String
        let key: ObjectKey
        switch exchange.target {
        case .object(let object): (url, key) = ("http://fake/\(object)", object)
        case .resource(let resource): (url, key) = (resource, ObjectKey(resource))
        }
        let fate = try fate(exchange.method, key)
        let (bytes, isCut) = try receive(fate, exchange.body ?? .empty, cancellation)
        let response = state.withLock { state in
            var answer = Answer(url: url)
            state.answer(exchange, key: key, bytes: bytes, isCut: isCut, &answer)
            if exchange.method == "PUT", isCut || fate == .lostAnswer, let url = answer.fields["Location"] {
                state.unannounced.insert(url)
            }
            return UploadExchangeResponse(status: answer.status, fields: answer.fields, body: [], url: url)
        }
        if isCut || fate == .lostAnswer { throw StoreError(.temporary, "connection reset") }
        return response
    }

    struct Answer {
        var url: String
        var status = 400
        var fields = HTTPFields()
    }
}

extension FakeStore.State {
    func check(_ condition: WriteCondition, _ object: FakeStore.Object?) throws(StoreError) {
        if ignoresConditions { return }
        switch condition {
        case .none: return
        case .absent: if object == nil { return }
        case .version(let version): if let object, object.version.isSame(as: version) { return }
        }
        throw StoreError(.preconditionFailed, "412", status: 412)
    }

    mutating func answer(
        _ exchange: UploadExchange,
        key: ObjectKey,
        bytes: [UInt8],
        isCut: Bool,
        _ answer: inout FakeStore.Answer
    ) {
        guard speaksResumable, exchange.fields["Upload-Draft-Interop-Version"] == "8" else { return }
        answer.fields["Upload-Draft-Interop-Version"] = "8"
        switch exchange.method {
        case "OPTIONS":
            answer.status = 204
            answer.fields["Upload-Limit"] = "max-size=1000000000"
        case "PUT":
            nextID += 1
            let url = "http://fake/resumable/\(nextID)"
            let metadata = ObjectMetadata(mode: exchange.fields["x-amz-meta-mode"].flatMap { UInt32($0) })
            var condition = WriteCondition.none
            if exchange.fields["If-None-Match"] != nil { condition = .absent }
            if let tag = exchange.fields["If-Match"], let object = objects[key],
                object.version.entityTag?.fieldValue == tag
            {
                condition = .version(object.version)
            }
            let length = exchange.fields["Upload-Length"].flatMap { Int($0) } ?? 0
            resumables[url] = FakeStore.Resumable(key: key, metadata: metadata, condition: condition, length: length)
            answer.status = 201
            answer.fields["Location"] = url
            answer.fields["Upload-Complete"] = "?0"
        case "HEAD":
            guard let upload = resumables[answer.url] else { return answer.status = 404 }
            answer.status = 204
            answer.fields["Upload-Offset"] = String(upload.bytes.count)
            answer.fields["Upload-Complete"] = upload.isComplete ? "?1" : "?0"
        case "PATCH": append(exchange, bytes, isCut, &answer)
        case "DELETE":
            resumables[answer.url] = nil
            answer.status = 204
        default: break
        }
    }

    private mutating func append(
        _ exchange: UploadExchange,
        _ bytes: [UInt8],
        _ isCut: Bool,
        _ answer: inout FakeStore.Answer
    ) {
        guard var upload = resumables[answer.url] else { return answer.status = 404 }
        guard exchange.fields["Upload-Offset"] == String(upload.bytes.count) else {
            answer.status = 409
            answer.fields["Upload-Offset"] = String(upload.bytes.count)
            return
        }
        upload.bytes += bytes
        answer.status = 204
        answer.fields["Upload-Offset"] = String(upload.bytes.count)
        answer.fields["Upload-Complete"] = "?0"
        if exchange.fields["Upload-Complete"] == "?1", !isCut, upload.bytes.count == upload.length {
            upload.isComplete = true
            answer.fields["Upload-Complete"] = "?1"
            commit(upload, &answer)
        }
        resumables[answer.url] = upload
    }

    private mutating func commit(_ upload: FakeStore.Resumable, _ answer: inout FakeStore.Answer) {
        let current = objects[upload.key]
        let isMet =
            switch upload.condition {
            case .none: true
            case .absent: current == nil
            case .version(let version): current?.version.isSame(as: version) ?? false
            }
        guard isMet else { return answer.status = 412 }
        let object = FakeStore.Object(bytes: upload.bytes, tag: md5Hex(upload.bytes), metadata: upload.metadata)
        objects[upload.key] = object
        answer.status = 200
        answer.fields["ETag"] = "\"" + object.tag + "\""
    }
}
