// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The S3 error codes a server here answers with.
package enum S3ErrorCode: String, Hashable, Sendable, CaseIterable {
    case accessDenied = "AccessDenied"
    case authorizationHeaderMalformed = "AuthorizationHeaderMalformed"
    case authorizationQueryParametersError = "AuthorizationQueryParametersError"
    case badDigest = "BadDigest"
    case bucketAlreadyExists = "BucketAlreadyExists"
    case bucketAlreadyOwnedByYou = "BucketAlreadyOwnedByYou"
    case bucketNotEmpty = "BucketNotEmpty"
    case conditionalRequestConflict = "ConditionalRequestConflict"
    case entityTooLarge = "EntityTooLarge"
    case entityTooSmall = "EntityTooSmall"
    case incompleteBody = "IncompleteBody"
    case internalError = "InternalError"
    case invalidAccessKeyId = "InvalidAccessKeyId"
    case invalidArgument = "InvalidArgument"
    case invalidBucketName = "InvalidBucketName"
    case invalidDigest = "InvalidDigest"
    case invalidPart = "InvalidPart"
    case invalidPartOrder = "InvalidPartOrder"
    case invalidRange = "InvalidRange"
    case invalidRequest = "InvalidRequest"
    case invalidURI = "InvalidURI"
    case keyTooLongError = "KeyTooLongError"
    case malformedXML = "MalformedXML"
    case metadataTooLarge = "MetadataTooLarge"
    case methodNotAllowed = "MethodNotAllowed"
    case missingContentLength = "MissingContentLength"
    case noSuchBucket = "NoSuchBucket"
    case noSuchKey = "NoSuchKey"
    case noSuchUpload = "NoSuchUpload"
    case notImplemented = "NotImplemented"
    case operationAborted = "OperationAborted"
    case preconditionFailed = "PreconditionFailed"
    case requestTimeTooSkewed = "RequestTimeTooSkewed"
    case requestTimeout = "RequestTimeout"
    case serviceUnavailable = "ServiceUnavailable"
    case signatureDoesNotMatch = "SignatureDoesNotMatch"
    case slowDown = "SlowDown"
    case storageFull = "InsufficientStorage"
    case contentSHA256Mismatch = "XAmzContentSHA256Mismatch"
    case parentIsObject = "ParentIsObject"
    case existingObjectIsDirectory = "ExistingObjectIsDirectory"

    /// The HTTP status it comes with.
    package var status: Int {
        switch self {
        case .accessDenied, .invalidAccessKeyId, .requestTimeTooSkewed, .signatureDoesNotMatch: 403
        case .noSuchBucket, .noSuchKey, .noSuchUpload: 404
        case .methodNotAllowed: 405
        case .bucketAlreadyExists, .bucketAlreadyOwnedByYou, .bucketNotEmpty, .conditionalRequestConflict,
            .operationAborted, .existingObjectIsDirectory:
            409
        case .missingContentLength: 411
        case .preconditionFailed: 412
        case .invalidRange: 416
        case .internalError: 500
        case .notImplemented: 501
        case .serviceUnavailable, .slowDown: 503
        case .storageFull: 507
        default: 400
        }
    }

    /// What it means, when nobody says it better.
    package var message: String {
        switch self {
        case .accessDenied: "Access denied"
        case .badDigest: "The digest you gave does not match what was received"
        case .bucketNotEmpty: "The bucket is not empty"
        case .entityTooLarge: "The upload is larger than allowed"
        case .entityTooSmall: "A part other than the last is smaller than 5 MiB"
        case .incompleteBody: "The body ended before its announced length"
        case .invalidAccessKeyId: "The access key is not known to the server"
        case .invalidPart: "A part is missing or its entity tag does not match"
        case .invalidPartOrder: "The parts are not in ascending order"
        case .invalidRange: "The requested range is not satisfiable"
        case .keyTooLongError: "The key is too long"
        case .malformedXML: "The XML is not well-formed or not what is expected here"
        case .noSuchBucket: "The bucket does not exist"
        case .noSuchKey: "The key does not exist"
        case .noSuchUpload: "The upload does not exist; it may have been aborted or completed"
        case .preconditionFailed: "At least one of the preconditions you gave did not hold"
        case .requestTimeTooSkewed: "The difference between the request time and the server's time is too large"
        case .signatureDoesNotMatch: "The signature does not match: check the secret key and the signing method"
        case .slowDown: "Please reduce your request rate"
        case .storageFull: "The server is out of space"
        case .contentSHA256Mismatch: "The provided x-amz-content-sha256 does not match what was received"
        case .parentIsObject: "A part of the key's path is an object: keys here are paths in a folder"
        case .existingObjectIsDirectory: "The key is a folder here: keys are paths in a folder"
        default: rawValue
        }
    }
}
