// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CCrypto

/// A digest or checksum computed piece by piece; used by one thread at a time.
///
/// CRCs come out in network byte order, as S3 and HTTP write them.
package final class Digest {
    private enum State {
        case message(OpaquePointer)
        case check(CyclicRedundancyCheck)
    }

    package let algorithm: DigestAlgorithm
    private var state: State

    package init(_ algorithm: DigestAlgorithm) {
        self.algorithm = algorithm
        state =
            switch algorithm {
            case .md5: .message(Self.makeContext(EVP_md5()))
            case .sha1: .message(Self.makeContext(EVP_sha1()))
            case .sha256: .message(Self.makeContext(EVP_sha256()))
            case .crc32: .check(CyclicRedundancyCheck(.crc32))
            case .crc32c: .check(CyclicRedundancyCheck(.crc32c))
            case .crc64nvme: .check(CyclicRedundancyCheck(.crc64nvme))
            }
    }

    private init(_ algorithm: DigestAlgorithm, _ state: State) {
        self.algorithm = algorithm
        self.state = state
    }

    deinit {
        if case .message(let context) = state { EVP_MD_CTX_free(context) }
    }

    /// Adds bytes.
    package func update(_ bytes: UnsafeRawBufferPointer) {
        switch state {
        case .message(let context):
            precondition(EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) == 1, "EVP_DigestUpdate failed")
        case .check(var check):
            check.update(bytes)
            state = .check(check)
        }
    }

    /// Adds bytes.
    package func update(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { update($0) }
    }

    /// An independent digest over the same bytes so far.
    package func copy() -> Digest {
        switch state {
        case .message(let context):
            guard let twin = EVP_MD_CTX_new(), EVP_MD_CTX_copy_ex(twin, context) == 1 else {
                preconditionFailure("EVP_MD_CTX_copy_ex failed: out of memory")
            }
            return Digest(algorithm, .message(twin))
        case .check(let check):
            return Digest(algorithm, .check(check))
        }
    }

    /// The value over all bytes added.
    ///
    /// The digest can be neither updated nor finalized again.
    package func finalize() -> [UInt8] {
        switch state {
        case .message(let context):
            [UInt8](unsafeUninitializedCapacity: algorithm.byteCount) { buffer, count in
                precondition(EVP_DigestFinal_ex(context, buffer.baseAddress, nil) == 1, "EVP_DigestFinal_ex failed")
                count = algorithm.byteCount
            }
        case .check(let check):
            check.bigEndianBytes
        }
    }

    /// The value over one buffer.
    package static func of(_ bytes: UnsafeRawBufferPointer, _ algorithm: DigestAlgorithm) -> [UInt8] {
        let digest = Digest(algorithm)
        digest.update(bytes)
        return digest.finalize()
    }

    /// The value over one array.
    package static func of(_ bytes: [UInt8], _ algorithm: DigestAlgorithm) -> [UInt8] {
        bytes.withUnsafeBytes { of($0, algorithm) }
    }

    private static func makeContext(_ type: OpaquePointer?) -> OpaquePointer {
        // Both fail only without memory, or where a system policy forbids the algorithm: nothing here can go on then.
        guard let context = EVP_MD_CTX_new(), EVP_DigestInit_ex(context, type, nil) == 1 else {
            preconditionFailure("libcrypto refuses a digest: out of memory, or forbidden by the system's policy")
        }
        return context
    }
}

/// The keyed hash of SigV4: HMAC with SHA-256 (RFC 2104).
package enum HMACSHA256 {
    /// The 32-byte code of `message` under `key`.
    package static func code(_ message: [UInt8], key: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: 32) { buffer, count in
            let result = HMAC(
                EVP_sha256(),
                key,
                Int32(key.count),
                message,
                message.count,
                buffer.baseAddress,
                nil
            )
            precondition(result != nil, "HMAC failed")
            count = 32
        }
    }
}

/// Compares two secrets in a time that depends on their lengths only.
package func equalInConstantTime(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
}
