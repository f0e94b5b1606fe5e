// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc

/// Why the storage refuses or fails.
enum StorageError: Error, Hashable, Sendable {
    case noSuchBucket
    case bucketExists
    case bucketNotEmpty
    case invalidBucketName
    case noSuchKey
    /// A folder cannot hold this key; the text says why.
    case invalidKey(String)
    case keyTooLong
    /// A folder stands where the object should go.
    case isFolder
    /// An object stands where a folder is needed.
    case parentIsObject
    case preconditionFailed
    case noSuchUpload
    case insufficientStorage
    /// The file system does not let the server do it.
    case forbidden(SystemError)
    case system(SystemError)

    /// The storage's meaning of a failed system call.
    init(_ error: SystemError) {
        switch error.code {
        case ENOSPC, EDQUOT: self = .insufficientStorage
        case ENAMETOOLONG: self = .keyTooLong
        case EACCES, EPERM, EROFS: self = .forbidden(error)
        default: self = .system(error)
        }
    }
}

/// Runs system calls and turns their errors into the storage's.
func storing<Result>(_ body: () throws(SystemError) -> Result) throws(StorageError) -> Result {
    do {
        return try body()
    } catch {
        throw StorageError(error)
    }
}

/// Runs work of the storage and turns its errors into the caller's.
func mapping<Result, Failure: Error>(
    _ wrap: (StorageError) -> Failure,
    _ body: () throws(StorageError) -> Result
) throws(Failure) -> Result {
    do {
        return try body()
    } catch {
        throw wrap(error)
    }
}
