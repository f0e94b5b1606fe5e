// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import HTTPWire

/// Decodes the chunked transfer coding from bytes that arrive in pieces: a pure value (RFC 9112, section 7.1).
struct ChunkedDecoder: Sendable {
    /// What the front of the bytes is.
    enum Piece: Hashable, Sendable {
        /// Framing only: drop that many bytes and ask again.
        case framing(Int)
        /// That many bytes of content.
        case content(Int)
        /// The end of the content, behind that many bytes of framing.
        case end(Int)
    }

    private enum State: Hashable {
        case size
        case content(Int64)
        case contentEnd
        case trailer
        case finished
    }

    private let limits: HTTPLimits
    private var state = State.size
    private var line: [UInt8] = []
    private var trailerBytes = 0
    private(set) var trailers = HTTPFields()

    init(limits: HTTPLimits) {
        self.limits = limits
    }

    /// Looks at bytes that were not yet taken, never empty.
    ///
    /// The caller drops or uses what the piece counts.
    mutating func next(_ bytes: UnsafeRawBufferPointer) throws(HTTPParseError) -> Piece {
        switch state {
        case .content(let remaining):
            let count = Int(min(remaining, Int64(bytes.count)))
            state = remaining == Int64(count) ? .contentEnd : .content(remaining - Int64(count))
            return .content(count)
        case .finished:
            return .end(0)
        case .size, .contentEnd, .trailer:
            let end = bytes.firstIndex(of: HTTPOctet.lineFeed)
            let count = end.map { $0 + 1 } ?? bytes.count
            line.append(contentsOf: bytes[..<count])
            try checkSizes(count)
            if end != nil { try endLine() }
            return state == .finished ? .end(count) : .framing(count)
        }
    }

    private mutating func checkSizes(_ count: Int) throws(HTTPParseError) {
        if state == .trailer {
            trailerBytes += count
            if trailerBytes > limits.headBytes { throw HTTPParseError(431, "trailers too large") }
        } else if line.count > 512 {
            throw HTTPParseError("chunk line too long")
        }
    }

    private mutating func endLine() throws(HTTPParseError) {
        defer { line.removeAll(keepingCapacity: true) }
        guard line.count >= 2, line[line.count - 2] == HTTPOctet.carriageReturn else {
            throw HTTPParseError("line of the chunked coding ends without a carriage return")
        }
        let content = line[..<(line.count - 2)]
        guard content.allSatisfy(HTTPOctet.isFieldCharacter) else { throw HTTPParseError("control character") }
        switch state {
        case .size:
            let size = try Self.size(content)
            state = size == 0 ? .trailer : .content(size)
        case .contentEnd:
            guard content.isEmpty else { throw HTTPParseError("chunk is longer than its size") }
            state = .size
        case .trailer:
            try addTrailer(content)
        case .content, .finished:
            break
        }
    }

    private mutating func addTrailer(_ content: ArraySlice<UInt8>) throws(HTTPParseError) {
        if content.isEmpty {
            state = .finished
            return
        }
        guard trailers.fields.count < limits.fieldLines else { throw HTTPParseError(431, "too many trailers") }
        trailers.fields.append(try HTTPFieldLine.parse(content))
    }

    /// A chunk size: 1 to 15 hexadecimal digits, then nothing or an extension.
    private static func size(_ content: ArraySlice<UInt8>) throws(HTTPParseError) -> Int64 {
        let digits = content.prefix { HTTPOctet.hexadecimal($0) != nil }
        let rest = content.dropFirst(digits.count)
        guard (1...15).contains(digits.count), rest.isEmpty || rest.first == UInt8(ascii: ";") else {
            throw HTTPParseError("bad chunk size")
        }
        return digits.reduce(0) { $0 << 4 | Int64(HTTPOctet.hexadecimal($1) ?? 0) }
    }
}
