// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Digests
package import HTTPWire

/// Why an `aws-chunked` body is not accepted.
package enum AWSChunkedError: Error, Hashable, Sendable {
    case malformed(String)
    /// A chunk's or the trailers' signature is wrong.
    case signatureMismatch
}

/// Takes the `aws-chunked` framing off a request body, piece by piece, checking signatures on the way.
///
/// A chunk's data is handed on before its signature can be checked, so nothing may be
/// committed until the decoder ``isComplete``. Used by one thread at a time.
package final class AWSChunkedDecoder {
    private enum State {
        case sizeLine
        case data(remaining: Int64)
        case dataEnd
        case trailers
        case complete
    }

    /// A size line is a few dozen bytes; trailers are a handful of short lines.
    private static let lineLimit = 4096
    private static let trailerLimit = 64

    private var state = State.sizeLine
    private var line: [UInt8] = []
    private var signer: ChunkSigner?
    private var digest: Digest?
    private var claimed: String?
    private let expectsTrailer: Bool
    /// What followed the last chunk, without the signature.
    package private(set) var trailers = HTTPFields()
    /// The bytes of data so far.
    package private(set) var decodedCount: Int64 = 0

    /// `signer` is nil for unsigned chunks.
    package init(signer: ChunkSigner?, hasTrailer: Bool) {
        self.signer = signer
        expectsTrailer = hasTrailer
    }

    /// Whether the body has ended, with all its signatures right.
    package var isComplete: Bool { if case .complete = state { true } else { false } }

    /// Takes raw bytes and hands the data in them to `sink`, in order.
    package func decode(
        _ bytes: UnsafeRawBufferPointer,
        into sink: (UnsafeRawBufferPointer) -> Void
    ) throws(AWSChunkedError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            if case .data(let remaining) = state {
                let count = Int(min(remaining, Int64(rest.count)))
                let piece = UnsafeRawBufferPointer(rebasing: rest.prefix(count))
                digest?.update(piece)
                sink(piece)
                decodedCount += Int64(count)
                rest = rest.dropFirst(count)
                state = remaining == Int64(count) ? .dataEnd : .data(remaining: remaining - Int64(count))
            } else {
                guard let byte = rest.popFirst() else { return }
                try take(byte)
            }
        }
    }

    private func take(_ byte: UInt8) throws(AWSChunkedError) {
        if case .complete = state { throw .malformed("bytes behind the end") }
        guard byte == 0x0A else {
            line.append(byte)
            if line.count > Self.lineLimit { throw .malformed("a line above \(Self.lineLimit) bytes") }
            return
        }
        guard line.last == 0x0D else { throw .malformed("a line without CR") }
        let text = String(decoding: line.dropLast(), as: UTF8.self)
        line.removeAll(keepingCapacity: true)
        switch state {
        case .sizeLine: try beginChunk(text)
        case .dataEnd:
            guard text.isEmpty else { throw .malformed("a chunk longer than its size") }
            try endChunk()
            state = .sizeLine
        case .trailers: try takeTrailer(text)
        case .data, .complete: break
        }
    }

    private func beginChunk(_ text: String) throws(AWSChunkedError) {
        let parts = text.split(separator: ";", maxSplits: 1, omittingEmptySubsequences: false)
        guard let size = Self.hexadecimalNumber(parts[0]) else { throw .malformed("a bad chunk size") }
        claimed = nil
        if signer != nil {
            guard parts.count == 2, parts[1].hasPrefix("chunk-signature=") else {
                throw .malformed("a chunk without a signature")
            }
            claimed = String(parts[1].dropFirst("chunk-signature=".utf8.count))
            digest = Digest(.sha256)
        }
        if size > 0 {
            state = .data(remaining: size)
        } else {
            try endChunk()
            state = .trailers
        }
    }

    private func endChunk() throws(AWSChunkedError) {
        guard let digest else { return }
        let value = Hexadecimal.encode(digest.finalize())
        self.digest = nil
        guard let expected = signer?.next(chunkDigest: value), let claimed,
            equalInConstantTime(Array(expected.utf8), Array(claimed.utf8))
        else { throw .signatureMismatch }
    }

    private func takeTrailer(_ text: String) throws(AWSChunkedError) {
        if text.isEmpty {
            // Some clients put an empty line between the trailers and their signature.
            if signer != nil, expectsTrailer, trailers["x-amz-trailer-signature"] == nil, !trailers.fields.isEmpty {
                return
            }
            try finish()
            return
        }
        guard expectsTrailer, trailers.fields.count < Self.trailerLimit,
            let colon = text.firstIndex(of: ":")
        else { throw .malformed("an unexpected trailer") }
        let name = String(text[..<colon]).lowercased()
        let value = trimmingOptionalWhitespace(text[text.index(after: colon)...])
        guard HTTPFields.isSafe(name: name, value: value) else { throw .malformed("a bad trailer") }
        trailers.append(name, value)
    }

    private func finish() throws(AWSChunkedError) {
        let claimed = trailers["x-amz-trailer-signature"]
        trailers["x-amz-trailer-signature"] = nil
        if let signer, expectsTrailer {
            let lines = trailers.fields.map { "\($0.name):\($0.value)\n" }.joined()
            let expected = signer.trailer(lines)
            guard let claimed, equalInConstantTime(Array(expected.utf8), Array(claimed.utf8)) else {
                throw .signatureMismatch
            }
        }
        state = .complete
    }

    private static func hexadecimalNumber(_ text: Substring) -> Int64? {
        guard !text.isEmpty, text.utf8.count <= 15 else { return nil }
        return text.utf8.reduce(Int64?(0)) { total, digit in
            guard let total, let value = Hexadecimal.value(of: digit) else { return nil }
            return total << 4 | Int64(value)
        }
    }
}
