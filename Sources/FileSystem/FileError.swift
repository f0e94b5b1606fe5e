// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import Database
internal import Glibc
package import ObjectStore

/// Why a file operation failed, in the file system's own terms; the FUSE border turns it into an errno.
package enum FileError: Error, Hashable, Sendable, CustomStringConvertible {
    case noEntry
    case exists
    case notDirectory
    case isDirectory
    case notEmpty
    case invalidArgument
    case nameTooLong
    /// The name is no UTF-8, which object keys are.
    case illegalName
    case readOnly
    case notPermitted
    case notSupported
    /// The remote does not tell what is in the folder; its names can be used where they are known.
    case notListed
    /// No such extended attribute.
    case noAttribute
    /// The object has no room for these extended attributes.
    case attributesTooLarge
    /// The caller's buffer is too small for an extended attribute.
    case bufferTooSmall
    /// The file has as many names as one may have.
    case tooManyLinks
    /// The file is larger than anything the remote may hold.
    case tooLarge
    /// The handle was opened for the other direction.
    case badHandle
    /// The remote object changed or went away under an open file.
    case stale
    /// The remote does not answer, and what was asked for is not known locally.
    case unreachable
    /// What the remote has here was forgotten with the catalog, and has not been asked for again.
    case unknown
    /// An earlier write or sync of this file failed; the data cannot be trusted.
    case writeFailed
    /// What had to be at the remote did not get there, for this reason.
    case notSent(String)
    case remote(StoreError)
    case journal(DatabaseError)
    case system(SystemError)

    package var description: String {
        switch self {
        case .remote(let error): error.description
        case .journal(let error): "local state: \(error)"
        case .system(let error): error.description
        case .stale: "the object changed at the remote"
        case .unreachable: "the remote does not answer and this is not known locally"
        case .unknown: "what the remote has here was forgotten; try again"
        case .notSent(let reason): "not sent: \(reason)"
        case .writeFailed: "an earlier write to this file failed"
        case .noEntry: "no such file or folder"
        case .exists: "the name exists"
        case .notDirectory: "not a folder"
        case .isDirectory: "a folder"
        case .notEmpty: "the folder is not empty"
        case .invalidArgument: "invalid argument"
        case .nameTooLong: "the name is too long"
        case .illegalName: "the name is not UTF-8"
        case .readOnly: "mounted read-only"
        case .notPermitted: "not permitted"
        case .notSupported: "not supported"
        case .notListed: "the remote does not list this folder"
        case .noAttribute: "no such attribute"
        case .attributesTooLarge: "the object has no room for these extended attributes"
        case .bufferTooSmall: "the buffer is too small"
        case .tooManyLinks: "the file has too many names"
        case .tooLarge: "larger than an object may be"
        case .badHandle: "not open for this"
        }
    }
}

extension FileError {
    /// What a failed request means to a file operation.
    package init(_ error: StoreError) {
        switch error.cause {
        case .unreachable: self = .unreachable
        case .preconditionFailed: self = .stale
        default: self = .remote(error)
        }
    }

    /// What a failed read of a known version means: the version is gone.
    package init(reading error: StoreError) {
        self = error.cause == .notFound ? .stale : FileError(error)
    }
}

extension FileError {
    /// Nobody is left who would take what the remote was waited for.
    package static let interrupted = FileError.remote(StoreError(.cancelled, "interrupted"))

    /// Whether the wait for the remote was given up, see ``Interruption``.
    package var isInterrupted: Bool {
        if case .remote(let error) = self { return error.cause == .cancelled }
        return false
    }

    /// Whether the remote does not tell what is in a folder, now and later.
    var isRefusalToList: Bool {
        if case .remote(let error) = self { return error.cause == .unsupported }
        return false
    }

    /// Whether the local disk has no room.
    var isOutOfSpace: Bool {
        switch self {
        case .system(let error): error.code == ENOSPC || error.code == EDQUOT
        case .journal(let error): error.kind == .full
        default: false
        }
    }
}

extension FileError {
    /// Whether a failed commit of the journal may have lost what the next one would take for written.
    var mayHideLoss: Bool {
        switch self {
        case .journal(let error): error.kind == .io || error.kind == .corrupt
        case .writeFailed: true
        default: false
        }
    }
}

/// Runs `body`, turning the errors of the layers below into file errors.
func translating<Value>(_ body: () throws -> Value) throws(FileError) -> Value {
    do {
        return try body()
    } catch let error as FileError {
        throw error
    } catch let error as StoreError {
        throw FileError(error)
    } catch let error as DatabaseError {
        throw error.kind == .incomplete ? .unknown : .journal(error)
    } catch let error as SystemError {
        throw .system(error)
    } catch {
        throw .invalidArgument
    }
}
