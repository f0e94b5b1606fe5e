// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CurlTransport
internal import HTTPWire
internal import ObjectStore
internal import Platform
internal import S3Wire

/// The one place where answers and transfer errors become ``StoreError``s.
enum S3ErrorMapping {
    /// The error of an answer with an error status.
    static func error(status: Int, fields: HTTPFields, body: [UInt8], isHead: Bool = false) -> StoreError {
        if status == 407 { return unwelcome("407") }
        let document = isHead ? nil : (try? XMLReader.parse(body)).flatMap { S3Error($0) }
        let code = oneLine(document?.code ?? headCode(status, fields))
        var said = oneLine(document?.message ?? "")
        // Some servers have only the code to say.
        if said == code { said = "" }
        let message = said.isEmpty ? "the server answered \(status)\(code.isEmpty ? "" : " (\(code))")" : said
        return StoreError(
            cause(status: status, code: code),
            "\(message)\(!said.isEmpty && !code.isEmpty ? " (\(code))" : "")",
            status: status,
            code: code.isEmpty ? nil : code,
            retryAfter: fields.retryAfter(now: .now())
        )
    }

    /// The proxy lets nobody through without a login.
    private static func unwelcome(_ said: String) -> StoreError {
        let advice = "put it into the proxy's URL in the environment"
        return StoreError(.authentication, "the proxy wants a login (\(said)); \(advice)", status: 407)
    }

    /// What a server said, fit for a log: no control characters, not endless.
    private static func oneLine(_ text: String) -> String {
        let printable = text.unicodeScalars.prefix(300).map { $0.properties.generalCategory == .control ? " " : $0 }
        return trimmingOptionalWhitespace(String(String.UnicodeScalarView(printable)))
    }

    /// Some servers name the code in a field, for HEAD.
    private static func headCode(_ status: Int, _ fields: HTTPFields) -> String {
        fields["x-amz-error-code"] ?? fields["x-minio-error-code"] ?? ""
    }

    private static func cause(status: Int, code: String) -> StoreError.Cause {
        causes[code] ?? cause(status: status)
    }

    private static let causes: [String: StoreError.Cause] = [
        "NoSuchKey": .notFound, "NotFound": .notFound, "NoSuchBucket": .noSuchBucket, "NoSuchUpload": .noSuchUpload,
        "PreconditionFailed": .preconditionFailed, "ConditionalRequestConflict": .preconditionFailed,
        "InvalidAccessKeyId": .authentication, "SignatureDoesNotMatch": .authentication,
        "ExpiredToken": .authentication, "InvalidToken": .authentication, "TokenRefreshRequired": .authentication,
        "RequestTimeTooSkewed": .authentication, "RequestExpired": .authentication,
        "AuthorizationHeaderMalformed": .authentication, "UnsupportedAlgorithm": .authentication,
        "InvalidSecurity": .authentication, "CredentialsNotSupported": .authentication,
        "AccessDenied": .forbidden, "AllAccessDisabled": .forbidden, "AccountProblem": .forbidden,
        "InvalidObjectState": .forbidden, "ReadOnly": .forbidden,
        "NotImplemented": .unsupported, "MethodNotAllowed": .unsupported,
        "EntityTooLarge": .tooLarge, "MaxMessageLengthExceeded": .tooLarge,
        "KeyTooLongError": .invalidKey, "KeyTooLong": .invalidKey, "InvalidURI": .invalidKey,
        "XMinioInvalidObjectName": .invalidKey, "ParentIsObject": .invalidKey,
        "ExistingObjectIsDirectory": .invalidKey,
        "QuotaExceeded": .noSpace, "InsufficientStorage": .noSpace, "XMinioStorageFull": .noSpace,
        "BadDigest": .corrupted, "XAmzContentSHA256Mismatch": .corrupted, "IncompleteBody": .corrupted,
        "PermanentRedirect": .redirected, "TemporaryRedirect": .redirected,
        "IllegalLocationConstraintException": .redirected,
        "SlowDown": .temporary, "InternalError": .temporary, "ServiceUnavailable": .temporary,
        "RequestTimeout": .temporary, "Throttling": .temporary, "RequestLimitExceeded": .temporary,
        "TooManyRequests": .temporary, "OperationAborted": .temporary, "ServerNotInitialized": .temporary,
    ]

    private static func cause(status: Int) -> StoreError.Cause {
        switch status {
        case 300..<400: .redirected
        case 401: .authentication
        case 403: .forbidden
        case 404, 410: .notFound
        case 405, 501: .unsupported
        case 408, 423, 425, 429: .temporary
        case 412: .preconditionFailed
        case 413: .tooLarge
        case 414: .invalidKey
        case 507: .noSpace
        case 500...: .temporary
        default: .rejected
        }
    }

    /// The error of a transfer without an answer.
    static func error(_ error: TransferError) -> StoreError {
        switch error.kind {
        case .unreachable: StoreError(.unreachable, error.message, code: StoreError.notSent)
        case .timeout: StoreError(.unreachable, error.message)
        case .proxyRefused: unwelcome(error.message)
        case .connectionLost: StoreError(.temporary, "the connection broke: \(error.message)")
        case .insecure where CaptivePortal.error(insecure: error.message) != nil:
            CaptivePortal.error(insecure: error.message) ?? StoreError(.rejected, error.message)
        case .insecure: StoreError(.rejected, "no secure connection: \(error.message)")
        case .localInput: StoreError(.localInput, error.message)
        case .cancelled: StoreError(.cancelled, "cancelled")
        case .refusedByDelegate, .protocolViolation: StoreError(.protocolViolation, error.message)
        case .invalidRequest: StoreError(.invalidKey, "the request cannot be sent: \(error.message)")
        }
    }
}
