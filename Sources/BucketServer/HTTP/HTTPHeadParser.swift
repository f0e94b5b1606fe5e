// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import HTTPWire

/// Finds and checks the head of a request in bytes that arrive in pieces: a pure value.
///
/// Lines end with CR LF only; a lone LF or CR, a NUL or any other control
/// character makes the request malformed (RFC 9112, sections 2.2 and 11.2).
struct HTTPHeadParser: Sendable {
    private let limits: HTTPLimits
    private var line: [UInt8] = []
    private var requestLine: [UInt8]?
    private var fields = HTTPFields()
    private var headBytes = 0
    private var sawEmptyLine = false

    init(limits: HTTPLimits) {
        self.limits = limits
        line.reserveCapacity(256)
    }

    /// Whether a head has begun.
    var isStarted: Bool { headBytes > 0 }

    /// Takes bytes up to the end of the head: how many it took, and the head once it is whole.
    mutating func consume(
        _ bytes: UnsafeRawBufferPointer
    ) throws(HTTPParseError) -> (consumed: Int, head: HTTPRequestHead?) {
        var position = 0
        while position < bytes.count {
            let rest = bytes[position...]
            let end = rest.firstIndex(of: HTTPOctet.lineFeed)
            let piece = rest[..<(end.map { $0 + 1 } ?? rest.endIndex)]
            line.append(contentsOf: piece)
            headBytes += piece.count
            position += piece.count
            try checkSizes()
            if end != nil, let head = try endLine() { return (position, head) }
        }
        return (position, nil)
    }

    private func checkSizes() throws(HTTPParseError) {
        // The method, two spaces and the version take at most 42 bytes more.
        if requestLine == nil, line.count > limits.targetBytes + 42 { throw HTTPParseError(414, "target too long") }
        if headBytes > limits.headBytes { throw HTTPParseError(431, "head too large") }
    }

    /// Handles a line that has just got its line feed.
    private mutating func endLine() throws(HTTPParseError) -> HTTPRequestHead? {
        defer { line.removeAll(keepingCapacity: true) }
        guard line.count >= 2, line[line.count - 2] == HTTPOctet.carriageReturn else {
            throw HTTPParseError("line ends without a carriage return")
        }
        let content = line[..<(line.count - 2)]
        guard content.allSatisfy(HTTPOctet.isFieldCharacter) else { throw HTTPParseError("control character") }
        guard let requestLine else {
            try startRequest(content)
            return nil
        }
        if content.isEmpty { return try HTTPRequestHead(requestLine: requestLine[...], fields: fields) }
        guard fields.fields.count < limits.fieldLines else { throw HTTPParseError(431, "too many fields") }
        fields.fields.append(try HTTPFieldLine.parse(content))
        return nil
    }

    private mutating func startRequest(_ content: ArraySlice<UInt8>) throws(HTTPParseError) {
        if content.isEmpty {
            // One empty line in front is forgiven, as old clients send one behind their content.
            guard !sawEmptyLine else { throw HTTPParseError("empty request line") }
            sawEmptyLine = true
            return
        }
        requestLine = Array(content)
    }
}
