// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import FileSystem
internal import Glibc
internal import ObjectStore

extension FileError {
    /// The errno that a program sees: the only place where one is chosen.
    ///
    /// Docs/Semantics.md has the table.
    var code: Int32 {
        switch self {
        case .noEntry: ENOENT
        case .exists: EEXIST
        case .notDirectory: ENOTDIR
        case .isDirectory: EISDIR
        case .notEmpty: ENOTEMPTY
        case .invalidArgument: EINVAL
        case .nameTooLong: ENAMETOOLONG
        case .illegalName: EILSEQ
        case .readOnly: EROFS
        case .notPermitted: EPERM
        case .notSupported: EOPNOTSUPP
        // As with a folder that may be searched but not read.
        case .notListed: EACCES
        case .noAttribute: ENODATA
        case .attributesTooLarge: ENOSPC
        case .bufferTooSmall: ERANGE
        case .tooManyLinks: EMLINK
        case .tooLarge: EFBIG
        case .badHandle: EBADF
        case .stale: ESTALE
        case .unreachable, .unknown, .writeFailed, .notSent: EIO
        case .remote(let error): Self.code(of: error.cause)
        case .journal(let error): Self.code(of: error.kind)
        case .system(let error): error.code
        }
    }

    private static func code(of cause: StoreError.Cause) -> Int32 {
        switch cause {
        case .notFound: ENOENT
        case .preconditionFailed: ESTALE
        case .authentication, .forbidden: EACCES
        case .unsupported: EOPNOTSUPP
        case .tooLarge: EFBIG
        case .invalidKey: EINVAL
        case .noSpace: ENOSPC
        case .cancelled: EINTR
        case .unreachable, .temporary, .noSuchBucket, .noSuchUpload, .corrupted, .protocolViolation, .redirected,
            .localInput, .rejected:
            EIO
        }
    }

    private static func code(of kind: DatabaseError.Kind) -> Int32 {
        switch kind {
        case .full: ENOSPC
        case .readOnly: EROFS
        case .constraint: EEXIST
        case .notFound: ESTALE
        case .busy: EAGAIN
        case .corrupt, .io, .incomplete, .newerFormat, .other: EIO
        }
    }
}
