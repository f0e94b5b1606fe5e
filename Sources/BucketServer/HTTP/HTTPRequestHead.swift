// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import HTTPWire

/// How the end of a request's content is found (RFC 9112, section 6.3).
package enum HTTPFraming: Hashable, Sendable {
    case length(Int64)
    case chunked
}

/// A request's head as the parser gives it.
package struct HTTPRequestHead: Hashable, Sendable {
    package var method: String
    /// The target in origin form, or `*`.
    package var target: String
    /// Whether the client spoke HTTP/1.1 (else 1.0).
    package var isVersion11: Bool
    package var fields: HTTPFields
    package var framing: HTTPFraming
    /// Whether the client keeps the connection open for another request.
    package var keepsAlive: Bool
    /// Whether the client waits for 100 (Continue) before it sends the content.
    package var expectsContinue: Bool
}

extension HTTPRequestHead {
    /// Checks a request line and its fields; everything on which two parsers could differ is refused.
    init(requestLine: ArraySlice<UInt8>, fields: HTTPFields) throws(HTTPParseError) {
        let parts = requestLine.split(separator: HTTPOctet.space, omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[0].isEmpty, parts[0].count <= 32, !parts[1].isEmpty,
            parts[0].allSatisfy(HTTPOctet.isTokenCharacter),
            parts[1].allSatisfy({ $0 > 0x20 && $0 != 0x7F && $0 != UInt8(ascii: "#") })
        else { throw HTTPParseError("bad request line") }
        isVersion11 = try Self.isVersion11(parts[2])
        method = String(decoding: parts[0], as: UTF8.self)
        guard let text = String(validating: parts[1], as: UTF8.self) else {
            throw HTTPParseError("target is not UTF-8")
        }
        self.fields = fields
        target = try Self.originForm(text, method: method, host: try Self.host(fields, required: isVersion11))
        framing = try Self.framing(fields, isVersion11: isVersion11)
        keepsAlive = Self.keepsAlive(fields, isVersion11: isVersion11)
        expectsContinue = try Self.expectsContinue(fields) && isVersion11 && framing != .length(0)
    }

    private static func isVersion11(_ version: ArraySlice<UInt8>) throws(HTTPParseError) -> Bool {
        switch String(decoding: version, as: UTF8.self) {
        case "HTTP/1.1": return true
        case "HTTP/1.0": return false
        case let other where other.utf8.count == 8 && other.hasPrefix("HTTP/"):
            throw HTTPParseError(505, "HTTP version not supported")
        default: throw HTTPParseError("bad HTTP version")
        }
    }

    private static func host(_ fields: HTTPFields, required: Bool) throws(HTTPParseError) -> String? {
        let hosts = fields.values("Host")
        guard hosts.count <= 1 else { throw HTTPParseError("several Host fields") }
        guard let host = hosts.first else {
            if required { throw HTTPParseError("no Host field") }
            return nil
        }
        let allowed = host.utf8.allSatisfy { octet in
            HTTPOctet.isTokenCharacter(octet) || octet == HTTPOctet.colon || octet == 0x5B || octet == 0x5D
        }
        guard allowed else { throw HTTPParseError("bad Host field") }
        return host
    }

    /// Reduces an absolute target to its path and query; its authority must be that of the Host field.
    private static func originForm(
        _ target: String,
        method: String,
        host: String?
    ) throws(HTTPParseError) -> String {
        if target.hasPrefix("/") { return target }
        if target == "*", method == "OPTIONS" { return target }
        guard target.lowercased().hasPrefix("http://") else { throw HTTPParseError("bad target") }
        let rest = target.dropFirst(7)
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        guard let host, HTTPFields.equal(String(authority), host) else {
            throw HTTPParseError("target and Host field differ")
        }
        let path = rest.dropFirst(authority.count)
        return path.hasPrefix("/") ? String(path) : "/" + path
    }

    private static func framing(_ fields: HTTPFields, isVersion11: Bool) throws(HTTPParseError) -> HTTPFraming {
        let lengths = fields.values("Content-Length")
        let codings = fields.values("Transfer-Encoding")
        if !codings.isEmpty {
            guard lengths.isEmpty else { throw HTTPParseError("both Content-Length and Transfer-Encoding") }
            guard isVersion11, codings.count == 1, HTTPFields.equal(codings[0], "chunked") else {
                throw HTTPParseError("bad Transfer-Encoding")
            }
            return .chunked
        }
        guard lengths.count <= 1 else { throw HTTPParseError("several Content-Length fields") }
        guard let text = lengths.first else { return .length(0) }
        guard (1...18).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let length = Int64(text)
        else { throw HTTPParseError("bad Content-Length") }
        return .length(length)
    }

    private static func keepsAlive(_ fields: HTTPFields, isVersion11: Bool) -> Bool {
        let options = fields.values("Connection")
            .flatMap { $0.split(separator: ",") }
            .map { $0.trimmingSpaces().lowercased() }
        if options.contains("close") { return false }
        return isVersion11 || options.contains("keep-alive")
    }

    private static func expectsContinue(_ fields: HTTPFields) throws(HTTPParseError) -> Bool {
        guard let expectation = fields["Expect"], !expectation.isEmpty else { return false }
        guard HTTPFields.equal(expectation, "100-continue") else { throw HTTPParseError(417, "unknown expectation") }
        return true
    }
}

extension StringProtocol where SubSequence == Substring {
    /// The text without spaces and tabs at its ends.
    func trimmingSpaces() -> String {
        var text = self[startIndex...].utf8
        while let first = text.first, first == HTTPOctet.space || first == HTTPOctet.tab { text.removeFirst() }
        while let last = text.last, last == HTTPOctet.space || last == HTTPOctet.tab { text.removeLast() }
        return String(Substring(text))
    }
}
