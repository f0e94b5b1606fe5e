// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire

/// What the server keeps on disk about an upload, beside its bytes.
///
/// The form is lines of `name value`; no value can hold a line break, as the request parser refuses them.
struct UploadManifest: Hashable, Sendable {
    /// The request that began the upload, without the fields of the protocol and of its own message.
    var method: String
    var target: String
    var fields: HTTPFields
    /// The length of the whole upload, once it is known.
    var length: Int64?
    /// The number of bytes that had come when the upload ended; nil while it has not.
    var finalSize: Int64?
    var answer: Answer?

    /// The target resource's answer.
    struct Answer: Hashable, Sendable {
        var status: Int
        var fields: HTTPFields
        var body: [UInt8]
    }

    private static let firstLine = "moorage-upload 1"

    var encoded: [UInt8] {
        var lines = [Self.firstLine, "method \(method)", "target \(target)"]
        if let length { lines.append("length \(length)") }
        lines += fields.fields.map { "field \($0.name) \($0.value)" }
        if let finalSize { lines.append("final-size \(finalSize)") }
        if let answer {
            lines.append("status \(answer.status)")
            lines += answer.fields.fields.map { "answer-field \($0.name) \($0.value)" }
            lines.append("answer-body \(String(decoding: answer.body.map(Self.visible), as: UTF8.self))")
        }
        return Array((lines.joined(separator: "\n") + "\nend\n").utf8)
    }

    /// An answer's body is kept for people and XML readers: line breaks become spaces.
    private static func visible(_ byte: UInt8) -> UInt8 { byte == 0x0A || byte == 0x0D ? 0x20 : byte }

    init(method: String, target: String, fields: HTTPFields, length: Int64?) {
        self.method = method
        self.target = target
        self.fields = fields
        self.length = length
    }

    /// Reads a manifest; nil when it is not whole.
    init?(_ bytes: [UInt8]) {
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.first.map(String.init) == Self.firstLine, lines.count >= 3, lines[lines.count - 2] == "end" else {
            return nil
        }
        self.init(method: "", target: "", fields: HTTPFields(), length: nil)
        for line in lines.dropFirst().dropLast(2) {
            guard let (name, value) = Self.cut(line) else { return nil }
            guard read(name, value) else { return nil }
        }
        guard !method.isEmpty, !target.isEmpty else { return nil }
    }

    private static func cut(_ line: Substring) -> (String, Substring)? {
        // By bytes: a space and a combining character behind it are one `Character`.
        guard let space = line.utf8.firstIndex(of: 0x20) else { return nil }
        return (String(line[..<space]), line[line.utf8.index(after: space)...])
    }

    private mutating func read(_ name: String, _ value: Substring) -> Bool {
        switch name {
        case "method": method = String(value)
        case "target": target = String(value)
        case "length": length = Int64(value)
        case "final-size": finalSize = Int64(value)
        case "status": answer = Int(value).map { Answer(status: $0, fields: HTTPFields(), body: []) }
        case "answer-body": answer?.body = Array(value.utf8)
        case "field", "answer-field":
            guard let (fieldName, fieldValue) = Self.cut(value) else { return false }
            if name == "field" {
                fields.append(fieldName, String(fieldValue))
            } else {
                answer?.fields.append(fieldName, String(fieldValue))
            }
        default: return false
        }
        return true
    }
}

extension UploadManifest {
    /// Fields that belong to the creation's own message or prove its authority: the plain request has neither.
    private static let dropped: Set<String> = [
        "authorization", "connection", "content-digest", "content-length", "content-md5", "date", "expect",
        "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
        "x-amz-content-sha256", "x-amz-date", "x-amz-decoded-content-length", "x-amz-security-token",
        "x-amz-trailer",
    ]

    /// The plain request that an upload stands for: what its creation asked, without the protocol around it.
    init(creating request: HTTPRequest, method: String, protocolFields: [String], length: Int64?) {
        let unwanted = Self.dropped.union(protocolFields.map { $0.lowercased() })
        let kept = request.fields.fields.filter { !unwanted.contains($0.name.lowercased()) }
        self.init(
            method: method,
            target: Self.withoutSignature(request),
            fields: HTTPFields(kept),
            length: length
        )
    }

    /// The target without a presigned URL's arguments.
    private static func withoutSignature(_ request: HTTPRequest) -> String {
        let kept = request.rawQuery.split(separator: "&").filter { !$0.lowercased().hasPrefix("x-amz-") }
        return kept.isEmpty ? String(request.rawPath) : "\(request.rawPath)?\(kept.joined(separator: "&"))"
    }
}
