// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import HTTPWire

/// Signs requests as a client does (AWS Signature Version 4).
package enum RequestSigner {
    /// Signs in the Authorization header.
    ///
    /// `fields` must hold Host. Adds `x-amz-date`, `x-amz-content-sha256`, `x-amz-security-token` where there is
    /// one, and Authorization. Headers that proxies or HTTP libraries change are sent but not signed.
    package static func sign(
        _ fields: inout HTTPFields,
        method: String,
        path: [UInt8],
        query: URLQuery,
        payloadHash: String,
        credentials: SigningCredentials,
        scope: SigningScope,
        key: SigningKey
    ) {
        fields["x-amz-date"] = scope.timestamp
        fields["x-amz-content-sha256"] = payloadHash
        fields["x-amz-security-token"] = credentials.sessionToken
        let request = CanonicalRequest(
            method: method,
            path: path,
            query: query,
            fields: fields,
            signing: fields.fields.map { $0.name.lowercased() }.filter(isSigned),
            payloadHash: payloadHash
        )
        let signature = key.signature(of: request.stringToSign(scope))
        fields["Authorization"] =
            "\(CanonicalRequest.algorithm) Credential=\(credentials.accessKeyID)/\(scope.text),"
            + "SignedHeaders=\(request.signedHeaders),Signature=\(signature)"
    }

    /// The query of a presigned URL: `query` with the signature's parameters.
    ///
    /// Only Host is signed, the payload is not. `expires` is in seconds, 1 to 604,800.
    package static func presign(
        method: String,
        host: String,
        path: [UInt8],
        query: URLQuery,
        expires: Int,
        credentials: SigningCredentials,
        scope: SigningScope,
        key: SigningKey
    ) -> URLQuery {
        var signed = query
        signed.append("X-Amz-Algorithm", CanonicalRequest.algorithm)
        signed.append("X-Amz-Credential", "\(credentials.accessKeyID)/\(scope.text)")
        signed.append("X-Amz-Date", scope.timestamp)
        signed.append("X-Amz-Expires", String(expires))
        if let token = credentials.sessionToken { signed.append("X-Amz-Security-Token", token) }
        signed.append("X-Amz-SignedHeaders", "host")
        let request = CanonicalRequest(
            method: method,
            path: path,
            query: signed,
            fields: HTTPFields([.init(name: "host", value: host)]),
            signing: ["host"],
            payloadHash: CanonicalRequest.unsignedPayload
        )
        signed.append("X-Amz-Signature", key.signature(of: request.stringToSign(scope)))
        return signed
    }

    /// Whether a header, lower case, is part of our signatures: what S3 demands, and what changes the meaning.
    private static func isSigned(_ name: String) -> Bool {
        switch name {
        case "host", "content-md5", "content-type", "date", "range": true
        default: name.hasPrefix("x-amz-") || name.hasPrefix("if-")
        }
    }
}
