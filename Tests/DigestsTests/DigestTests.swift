// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Digests
import Testing

@Suite struct DigestTests {
    static let check = Array("123456789".utf8)

    @Test(arguments: [
        (DigestAlgorithm.md5, "25f9e794323b453885f5181f1b624d0b"),
        (.sha1, "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
        (.sha256, "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
        (.crc32, "cbf43926"),
        (.crc32c, "e3069283"),
        (.crc64nvme, "ae8b14860a799888"),
    ])
    func publishedCheckValuesComeOut(algorithm: DigestAlgorithm, expected: String) {
        #expect(Hexadecimal.encode(Digest.of(Self.check, algorithm)) == expected)
        #expect(Digest.of([], algorithm).count == algorithm.byteCount)
    }

    @Test(arguments: DigestAlgorithm.allCases)
    func piecesOfAnySizeGiveTheSameValue(algorithm: DigestAlgorithm) {
        let data = (0..<1000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 3) }
        let whole = Digest.of(data, algorithm)
        for size in [1, 3, 7, 8, 9, 64, 999] {
            let digest = Digest(algorithm)
            for start in stride(from: 0, to: data.count, by: size) {
                digest.update(Array(data[start..<min(data.count, start + size)]))
            }
            #expect(digest.copy().finalize() == whole)
            #expect(digest.finalize() == whole)
        }
    }

    @Test func keyedHashMatchesTheRFCVector() {
        let code = HMACSHA256.code(Array("what do ya want for nothing?".utf8), key: Array("Jefe".utf8))
        #expect(Hexadecimal.encode(code) == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        #expect(HMACSHA256.code([], key: []).count == 32)
    }

    @Test func constantTimeComparisonSeesLengthAndContent() {
        #expect(equalInConstantTime([1, 2], [1, 2]))
        #expect(!equalInConstantTime([1, 2], [1, 3]))
        #expect(!equalInConstantTime([1, 2], [1, 2, 3]))
        #expect(equalInConstantTime([], []))
    }

    @Test(arguments: [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")])
    func base64GoesBothWays(text: String, encoded: String) {
        #expect(Base64.encode(Array(text.utf8)) == encoded)
        #expect(Base64.decode(encoded) == Array(text.utf8))
    }

    @Test(arguments: ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==", "Zm 9v", "Zm9v\n"])
    func base64ThatIsNotCanonicalIsRefused(text: String) {
        #expect(Base64.decode(text) == nil)
    }

    @Test func hexadecimalGoesBothWays() {
        let all = (0...255).map { UInt8($0) }
        #expect(Hexadecimal.decode(Hexadecimal.encode(all)) == all)
        #expect(Hexadecimal.decode("AbcD") == [0xAB, 0xCD])
        #expect(Hexadecimal.decode("abc") == nil)
        #expect(Hexadecimal.decode("0g") == nil)
    }
}
