// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import HTTPWire
internal import S3Wire

/// A checksum that a client gives for content, in a field or in a trailer.
struct ChecksumClaim: Hashable, Sendable {
    let algorithm: DigestAlgorithm
    /// In base64; nil when it comes in a trailer.
    let value: String?

    static let algorithms: [DigestAlgorithm] = [.crc32, .crc32c, .crc64nvme, .sha1, .sha256]

    /// The claim of a request; throws when there are several or one that is not known here.
    ///
    /// Only with `allowsComposite` the value may be one over the checksums of parts, with their number behind it.
    static func of(_ fields: HTTPFields, allowsComposite: Bool = false) throws(S3Error) -> ChecksumClaim? {
        var claims: [ChecksumClaim] = []
        for field in fields.fields {
            let name = field.name.lowercased()
            if name == "x-amz-trailer" {
                for element in field.value.split(separator: ",") {
                    if let algorithm = try algorithm(element.trimmingSpaces().lowercased()) {
                        claims.append(ChecksumClaim(algorithm: algorithm, value: nil))
                    }
                }
            } else if let algorithm = try algorithm(name) {
                claims.append(ChecksumClaim(algorithm: algorithm, value: field.value))
            }
        }
        guard claims.count <= 1 else { throw S3Error(.invalidRequest, "Expecting a single x-amz-checksum- field") }
        guard let claim = claims.first, let value = claim.value else { return claims.first }
        let digest = allowsComposite ? value.prefix { $0 != "-" } : value[...]
        guard Base64.decode(String(digest))?.count == claim.algorithm.byteCount else {
            throw S3Error(.invalidRequest, "Value for x-amz-checksum-\(claim.algorithm.rawValue) is invalid")
        }
        return claim
    }

    /// The algorithm that `x-amz-checksum-algorithm` names; nil without that field.
    static func algorithm(wantedBy fields: HTTPFields) throws(S3Error) -> DigestAlgorithm? {
        guard let name = fields["x-amz-checksum-algorithm"]?.lowercased() else { return nil }
        return try algorithm("x-amz-checksum-" + name)
    }

    private static func algorithm(_ name: String) throws(S3Error) -> DigestAlgorithm? {
        guard name.hasPrefix("x-amz-checksum-") else { return nil }
        let rest = String(name.dropFirst("x-amz-checksum-".utf8.count))
        if ["algorithm", "type", "mode"].contains(rest) { return nil }
        guard let algorithm = DigestAlgorithm(rawValue: rest), algorithms.contains(algorithm) else {
            throw S3Error(.notImplemented, "The checksum \(rest) is not implemented")
        }
        return algorithm
    }
}

/// Hashes content on its way in, and compares with all that the client said about it.
///
/// Used by one thread at a time.
final class ContentChecks {
    /// What the content turned out to be.
    struct Result: Sendable {
        let md5: [UInt8]
        let checksum: StoredChecksum?
    }

    private let md5 = Digest(.md5)
    private let sha256: Digest?
    private let checksum: Digest?
    private let claim: ChecksumClaim?
    private let claimedMD5: [UInt8]?
    private let claimedSHA256: String?

    init(_ fields: HTTPFields, payload: PayloadForm?, defaultAlgorithm: DigestAlgorithm? = nil) throws(S3Error) {
        claim = try ChecksumClaim.of(fields)
        checksum = (claim?.algorithm ?? defaultAlgorithm).map { Digest($0) }
        if case .digest(let value) = payload { claimedSHA256 = value } else { claimedSHA256 = nil }
        sha256 = claimedSHA256.map { _ in Digest(.sha256) }
        if let text = fields["Content-MD5"] {
            guard let value = Base64.decode(text), value.count == 16 else { throw S3Error(.invalidDigest) }
            claimedMD5 = value
        } else {
            claimedMD5 = nil
        }
    }

    func update(_ bytes: UnsafeRawBufferPointer) {
        md5.update(bytes)
        sha256?.update(bytes)
        checksum?.update(bytes)
    }

    /// Compares; `trailers` are those behind the content.
    func finish(trailers: HTTPFields) throws(S3Error) -> Result {
        let md5 = md5.finalize()
        if let claimedMD5, claimedMD5 != md5 { throw S3Error(.badDigest) }
        if let sha256, Hexadecimal.encode(sha256.finalize()) != claimedSHA256 {
            throw S3Error(.contentSHA256Mismatch)
        }
        guard let checksum else { return Result(md5: md5, checksum: nil) }
        let name = checksum.algorithm.rawValue
        let value = Base64.encode(checksum.finalize())
        if let claim {
            guard let claimed = claim.value ?? trailers["x-amz-checksum-\(name)"] else {
                throw S3Error(.invalidRequest, "The trailer x-amz-checksum-\(name) is missing")
            }
            guard claimed == value else { throw S3Error(.badDigest) }
        }
        return Result(md5: md5, checksum: StoredChecksum(algorithm: name, value: value, isComposite: false))
    }
}
