// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc

/// Why talking to the flusher failed.
package enum ControlError: Error, CustomStringConvertible {
    /// A socket call failed; ENOENT and ECONNREFUSED mean that no flusher listens.
    case system(SystemError)
    /// The other end closed the connection.
    case closed
    /// No answer in time.
    case timeout
    /// What arrived is not a message of this protocol, or longer than a frame may be.
    case malformed(String)
    /// The flusher speaks another version of the protocol.
    case incompatible(theirs: Int)
    /// An older flusher ends in favour of this program.
    case handingOver
    /// The flusher refused the request, with its reason.
    case refused(String)
    /// The flusher could not be started.
    case notStarted(String)

    /// Whether nobody listens at the socket.
    package var isNobodyThere: Bool {
        guard case .system(let error) = self else { return false }
        return error.operation == "connect"
    }

    /// Whether the other end went away, which says nothing of what was asked.
    package var isLossOfConnection: Bool {
        switch self {
        case .closed: true
        case .system(let error): error.code == EPIPE || error.code == ECONNRESET
        default: false
        }
    }

    package var description: String {
        switch self {
        case .system(let error): error.description
        case .closed: "the flusher closed the connection"
        case .timeout: "the flusher does not answer"
        case .malformed(let what): "unexpected message: \(what)"
        case .incompatible(let theirs):
            "the running flusher speaks protocol \(theirs), this command \(ControlProtocol.version)"
        case .handingOver: "the flusher of an older version is ending; try again"
        case .refused(let reason): reason
        case .notStarted(let reason): "the flusher did not start: \(reason)"
        }
    }
}

/// Constants of the control protocol, see Docs/Protocols.md.
package enum ControlProtocol {
    /// Raised when a message changes so that the other side would misread it.
    package static let version = 1
    /// The longest frame in bytes, the newline included.
    package static let frameLimit = 16 << 20
    /// How many clients a flusher serves at once.
    package static let clientLimit = 128
}
