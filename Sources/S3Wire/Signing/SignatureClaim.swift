// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Digests
package import HTTPWire

/// Why a request's signature is not accepted.
package enum SignatureProblem: Error, Hashable, Sendable {
    /// The Authorization header cannot be read.
    case malformedAuthorization(String)
    /// The query of a presigned URL cannot be read.
    case malformedQuery(String)
    /// There is no usable date.
    case missingDate
    /// The date is more than 15 minutes from ours.
    case skewed
    /// The presigned URL's time is over.
    case expired
    /// This header should be signed, and is not.
    case unsignedHeader(String)
    /// The signature is not that of this request under this secret.
    case mismatch

    /// The S3 error that tells it.
    package var error: S3Error {
        switch self {
        case .malformedAuthorization(let reason): S3Error(.authorizationHeaderMalformed, reason)
        case .malformedQuery(let reason): S3Error(.authorizationQueryParametersError, reason)
        case .missingDate:
            S3Error(.accessDenied, "AWS authentication requires a valid Date or x-amz-date header")
        case .skewed: S3Error(.requestTimeTooSkewed)
        case .expired: S3Error(.accessDenied, "Request has expired")
        case .unsignedHeader(let name):
            S3Error(.accessDenied, "There were headers present in the request which were not signed: \(name)")
        case .mismatch: S3Error(.signatureDoesNotMatch)
        }
    }
}

/// What a request says about its own signature; a server checks it against the secret.
package struct SignatureClaim: Hashable, Sendable {
    /// How far a client's clock may be from the server's, in seconds.
    package static let allowedSkew: Int64 = 15 * 60

    package let accessKeyID: String
    package let scope: SigningScope
    package let time: Timestamp
    /// Lower case.
    package let signedHeaders: [String]
    package let signature: String
    /// Seconds of validity, for a presigned URL only.
    package let expires: Int64?

    package var isPresigned: Bool { expires != nil }

    /// Reads the claim from the header or the query; nil for a request that is not signed at all.
    package static func read(
        fields: HTTPFields,
        query: URLQuery
    ) throws(SignatureProblem) -> SignatureClaim? {
        if let authorization = fields["authorization"] {
            return try SignatureClaim(authorization: authorization, fields: fields)
        }
        if query.contains("AWSAccessKeyId"), query.contains("Signature") {
            throw .malformedQuery("the URL is signed with version 2; only \(CanonicalRequest.algorithm) is supported")
        }
        return query.contains("X-Amz-Algorithm") || query.contains("X-Amz-Signature")
            ? try SignatureClaim(presigned: query) : nil
    }

    private init(authorization: String, fields: HTTPFields) throws(SignatureProblem) {
        let prefix = CanonicalRequest.algorithm + " "
        guard authorization.hasPrefix(prefix) else {
            throw .malformedAuthorization("only \(CanonicalRequest.algorithm) is supported")
        }
        var parts: [String: String] = [:]
        for part in authorization.dropFirst(prefix.utf8.count).split(separator: ",") {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2 else { throw .malformedAuthorization("a part without =") }
            parts[trimmingOptionalWhitespace(pair[0])] = trimmingOptionalWhitespace(pair[1])
        }
        guard let credential = parts["Credential"], let headers = parts["SignedHeaders"],
            let signature = parts["Signature"]
        else { throw .malformedAuthorization("Credential, SignedHeaders and Signature are required") }
        guard let time = Self.time(of: fields) else { throw .missingDate }
        let timestamp = SigningScope.format(time)
        guard let identity = Self.split(credential, timestamp) else {
            throw .malformedAuthorization("the Credential is malformed or of another date")
        }
        (accessKeyID, scope) = identity
        self.time = time
        signedHeaders = headers.split(separator: ";").map { $0.lowercased() }
        self.signature = signature
        expires = nil
    }

    private init(presigned query: URLQuery) throws(SignatureProblem) {
        guard query["X-Amz-Algorithm"] == CanonicalRequest.algorithm else {
            throw .malformedQuery("X-Amz-Algorithm only supports \(CanonicalRequest.algorithm)")
        }
        guard let credential = query["X-Amz-Credential"], let timestamp = query["X-Amz-Date"],
            let headers = query["X-Amz-SignedHeaders"], let signature = query["X-Amz-Signature"],
            let expires = query["X-Amz-Expires"].flatMap({ decimalNumber($0) })
        else {
            throw .malformedQuery(
                "X-Amz-Algorithm, -Credential, -Signature, -Date, -SignedHeaders and -Expires are required"
            )
        }
        guard (1...604_800).contains(expires) else { throw .malformedQuery("X-Amz-Expires must be 1 to 604800") }
        guard let time = SigningScope.parse(timestamp), let identity = Self.split(credential, timestamp) else {
            throw .malformedQuery("X-Amz-Credential and X-Amz-Date are malformed or disagree")
        }
        (accessKeyID, scope) = identity
        self.time = time
        signedHeaders = headers.split(separator: ";").map { $0.lowercased() }
        self.signature = signature
        self.expires = expires
    }

    /// The time of a request: x-amz-date, else Date; nil when it cannot be read.
    private static func time(of fields: HTTPFields) -> Timestamp? {
        if let text = fields["x-amz-date"] { return SigningScope.parse(text) }
        // Python's clients write the zone of mail (RFC 5322, section 3.3).
        guard let text = fields["date"], ["-0000", "+0000"].contains(text.suffix(5)) else { return fields.date }
        return HTTPDate.parse(text.dropLast(5) + "GMT")
    }

    /// Splits `key/date/region/service/aws4_request`; the key itself may hold slashes.
    private static func split(_ credential: String, _ timestamp: String) -> (String, SigningScope)? {
        let parts = credential.split(separator: "/", omittingEmptySubsequences: false).map { String($0) }
        guard parts.count >= 5, parts[parts.count - 1] == "aws4_request",
            let scope = SigningScope(
                timestamp: timestamp,
                region: parts[parts.count - 3],
                service: parts[parts.count - 2]
            ),
            parts[parts.count - 4] == scope.date
        else { return nil }
        return (parts[..<(parts.count - 4)].joined(separator: "/"), scope)
    }

    /// Checks the clock: a header signature within the allowed skew, a presigned URL within its life.
    package func checkTime(now: Timestamp) throws(SignatureProblem) {
        let age = now.seconds - time.seconds
        if let expires {
            if age < -Self.allowedSkew { throw .skewed }
            if age > expires { throw .expired }
        } else if abs(age) > Self.allowedSkew {
            throw .skewed
        }
    }

    /// Checks that the signature is this request's.
    ///
    /// `path` is decoded, `query` complete as it arrived.
    package func verify(
        secret: String,
        method: String,
        path: [UInt8],
        query: URLQuery,
        fields: HTTPFields,
        payloadHash: String
    ) throws(SignatureProblem) {
        guard signedHeaders.contains("host") else { throw .unsignedHeader("host") }
        for field in fields.fields {
            let name = field.name.lowercased()
            if name.hasPrefix("x-amz-"), !signedHeaders.contains(name) { throw .unsignedHeader(name) }
        }
        var signedQuery = query
        if isPresigned { signedQuery.items.removeAll { $0.name == "X-Amz-Signature" } }
        let request = CanonicalRequest(
            method: method,
            path: path,
            query: signedQuery,
            fields: fields,
            signing: signedHeaders,
            payloadHash: payloadHash
        )
        let expected = SigningKey(secret: secret, scope: scope).signature(of: request.stringToSign(scope))
        guard equalInConstantTime(Array(expected.utf8), Array(signature.utf8)) else { throw .mismatch }
    }
}
