// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Digests
import HTTPWire
import S3Wire
import Testing

@Suite struct AWSChunkedTests {
    /// Decodes a body given in pieces of `size` bytes.
    static func decode(_ body: [UInt8], size: Int, _ decoder: AWSChunkedDecoder) throws -> [UInt8] {
        var data: [UInt8] = []
        for start in stride(from: 0, to: body.count, by: size) {
            let piece = Array(body[start..<min(body.count, start + size)])
            try piece.withUnsafeBytes { raw in try decoder.decode(raw) { data += Array($0) } }
        }
        return data
    }

    static func signedBody(_ chunks: [[UInt8]], trailer: String?, seed: String) -> [UInt8] {
        var signer = ChunkSigner(key: Published.key, scope: Published.scope, seed: seed)
        var body: [UInt8] = []
        for chunk in chunks + [[]] {
            let signature = signer.next(chunkDigest: Hexadecimal.encode(Digest.of(chunk, .sha256)))
            body += Array("\(String(chunk.count, radix: 16));chunk-signature=\(signature)\r\n".utf8) + chunk
            if !chunk.isEmpty { body += [0x0D, 0x0A] }
        }
        if let trailer {
            body += Array("\(trailer)\r\nx-amz-trailer-signature:\(signer.trailer(trailer + "\n"))\r\n".utf8)
        }
        return body + [0x0D, 0x0A]
    }

    @Test(arguments: [1, 2, 7, 64, 100_000])
    func unsignedChunksWithATrailer(size: Int) throws {
        let body = Array("5\r\nhello\r\n6\r\n world\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n".utf8)
        let decoder = AWSChunkedDecoder(signer: nil, hasTrailer: true)
        #expect(try Self.decode(body, size: size, decoder) == Array("hello world".utf8))
        #expect(decoder.isComplete)
        #expect(decoder.decodedCount == 11)
        #expect(decoder.trailers["x-amz-checksum-crc32"] == "DUoRhQ==")
    }

    @Test(arguments: [1, 3, 1000], [nil, "x-amz-checksum-crc32c:sOO8/Q=="] as [String?])
    func signedChunksAreChecked(size: Int, trailer: String?) throws {
        let chunks = [[UInt8](repeating: 1, count: 300), [UInt8](repeating: 2, count: 5)]
        let body = Self.signedBody(chunks, trailer: trailer, seed: "seed")
        func decoder(_ seed: String) -> AWSChunkedDecoder {
            AWSChunkedDecoder(
                signer: ChunkSigner(key: Published.key, scope: Published.scope, seed: seed),
                hasTrailer: trailer != nil
            )
        }
        let good = decoder("seed")
        #expect(try Self.decode(body, size: size, good) == chunks[0] + chunks[1])
        #expect(good.isComplete)
        #expect(throws: AWSChunkedError.signatureMismatch) { try Self.decode(body, size: size, decoder("other")) }
        var tampered = body
        tampered[150] ^= 1
        #expect(throws: AWSChunkedError.signatureMismatch) { try Self.decode(tampered, size: size, decoder("seed")) }
    }

    @Test(arguments: [
        "zz\r\n", "5\nhello", "5\r\nhelloX\r\n", "-1\r\n", "\r\n", "fffffffffffffffff\r\n",
        "0\r\nno colon\r\n\r\n", "0\r\n\r\nmore",
    ])
    func malformedFramingIsRefused(text: String) {
        let decoder = AWSChunkedDecoder(signer: nil, hasTrailer: true)
        #expect(throws: AWSChunkedError.self) { try Self.decode(Array(text.utf8), size: 1, decoder) }
    }

    @Test func aBodyThatStopsIsNotComplete() throws {
        for text in ["", "5\r\nhel", "5\r\nhello\r\n", "0\r\n"] {
            let decoder = AWSChunkedDecoder(signer: nil, hasTrailer: true)
            _ = try Self.decode(Array(text.utf8), size: 2, decoder)
            #expect(!decoder.isComplete)
        }
    }

    @Test func endlessLinesAreRefused() {
        let decoder = AWSChunkedDecoder(signer: nil, hasTrailer: true)
        let body = [UInt8](repeating: 0x30, count: 10_000)
        #expect(throws: AWSChunkedError.self) { try Self.decode(body, size: 512, decoder) }
    }
}
