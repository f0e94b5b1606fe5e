// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import HTTPWire
internal import Platform
internal import S3Wire

/// What a request may do, and how its content is protected.
struct S3Authorization: Sendable {
    /// What `x-amz-content-sha256` says of the content; nil when it says nothing.
    let payload: PayloadForm?
    /// Checks signed chunks; nil when they are not checked.
    let signer: ChunkSigner?
}

/// Checks who sends a request: by signature when there is a key, else by being on this machine.
package struct S3Authenticator: HTTPRequestAuthorizer {
    private let credentials: SigningCredentials?

    /// With nil, unsigned requests are taken, which is for loopback only.
    init(credentials: SigningCredentials?) {
        self.credentials = credentials
    }

    package func refusal(of request: HTTPRequest) -> HTTPAnswer? {
        do throws(S3Error) {
            let payload = try authorize(request).payload
            let isStreaming = if case .streaming = payload { true } else { false }
            if isStreaming || ContentReceiver.isChunked(request.fields) {
                throw S3Error(.notImplemented, "A resumable upload takes content without aws-chunked framing")
            }
            // Said before the content is sent, not when it is complete.
            guard let query = URLQuery(wire: request.rawQuery) else { throw S3Error(.invalidURI) }
            try RequestScope(request).check(query, request.fields)
            return nil
        } catch {
            return error.answer(to: request)
        }
    }

    package func promisedDigest(of request: HTTPRequest) -> [UInt8]? {
        guard case .digest(let value) = PayloadForm(request.fields) else { return nil }
        return Hexadecimal.decode(value)
    }

    /// Checks the head of a request; its content is checked while it is read.
    func authorize(_ request: HTTPRequest) throws(S3Error) -> S3Authorization {
        let payload = PayloadForm(request.fields)
        if payload == nil, request.fields["x-amz-content-sha256"] != nil {
            throw S3Error(.invalidArgument, "x-amz-content-sha256 is none of the known forms")
        }
        if request.isAuthorized { return S3Authorization(payload: nil, signer: nil) }
        guard let credentials else {
            try checkLocal(request)
            return S3Authorization(payload: payload, signer: nil)
        }
        let claim = try checkSignature(request, credentials)
        guard case .streaming(isSigned: true, _) = payload else {
            return S3Authorization(payload: payload, signer: nil)
        }
        let key = SigningKey(secret: credentials.secretAccessKey, scope: claim.scope)
        let signer = ChunkSigner(key: key, scope: claim.scope, seed: claim.signature)
        return S3Authorization(payload: payload, signer: signer)
    }

    private func checkSignature(
        _ request: HTTPRequest,
        _ credentials: SigningCredentials
    ) throws(S3Error) -> SignatureClaim {
        guard let query = URLQuery(wire: request.rawQuery) else { throw S3Error(.invalidURI) }
        do {
            guard let claim = try SignatureClaim.read(fields: request.fields, query: query) else {
                throw S3Error(.accessDenied, "Anonymous access is forbidden")
            }
            let isKnown = equalInConstantTime(Array(claim.accessKeyID.utf8), Array(credentials.accessKeyID.utf8))
            guard isKnown else { throw S3Error(.invalidAccessKeyId) }
            try claim.checkTime(now: Timestamp.now())
            try claim.verify(
                secret: credentials.secretAccessKey,
                method: request.method,
                path: request.path,
                query: query,
                fields: request.fields,
                payloadHash: try payloadHash(request.fields, claim)
            )
            return claim
        } catch let problem as SignatureProblem {
            throw problem.error
        } catch let error as S3Error {
            throw error
        } catch {
            throw S3Error(.internalError)
        }
    }

    private func payloadHash(_ fields: HTTPFields, _ claim: SignatureClaim) throws(S3Error) -> String {
        if let hash = fields["x-amz-content-sha256"] { return hash }
        guard claim.isPresigned else {
            throw S3Error(.invalidRequest, "Missing required header for this request: x-amz-content-sha256")
        }
        return CanonicalRequest.unsignedPayload
    }

    /// Keeps web pages in a browser on this machine from using the open server.
    private func checkLocal(_ request: HTTPRequest) throws(S3Error) {
        let isCrossSite =
            request.fields["Origin"] != nil
            || request.fields["Sec-Fetch-Site"].map { $0 != "same-origin" && $0 != "none" } ?? false
        guard !isCrossSite, Self.isLocalHost(request.fields["Host"] ?? "localhost") else {
            throw S3Error(.accessDenied, "Without an access key only programs of this machine are served")
        }
    }

    /// Whether a Host field names this machine: another name that leads here is one an attacker's DNS gave us.
    static func isLocalHost(_ host: String) -> Bool {
        if host.hasPrefix("[") { return host.hasPrefix("[::1]") || host.lowercased().hasPrefix("[::ffff:127.") }
        let name = host.prefix { $0 != ":" }.lowercased()
        if name == "localhost" || name.hasSuffix(".localhost") { return true }
        let numbers = name.split(separator: ".", omittingEmptySubsequences: false).map { UInt8($0) }
        return numbers.count == 4 && numbers.first == 127 && numbers.allSatisfy { $0 != nil }
    }
}
