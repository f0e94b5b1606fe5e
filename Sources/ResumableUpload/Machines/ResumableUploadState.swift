// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import HTTPWire

/// What the journal keeps of a resumable upload.
///
/// The URL is a secret: whoever knows it may append.
package struct ResumableUploadState: Hashable, Sendable {
    /// The absolute URL of the upload resource.
    package var resource: String
    package var version: InteropVersion
    /// Bytes the server acknowledged; may lag behind.
    package var offset: Int64
    /// Bytes of the whole.
    package var length: Int64

    package init(resource: String, version: InteropVersion, offset: Int64 = 0, length: Int64) {
        self.resource = resource
        self.version = version
        self.offset = offset
        self.length = length
    }
}

/// What is known of a server's support.
package enum ResumableSupport: Hashable, Sendable {
    case unknown
    case none
    case version(InteropVersion)
}

extension ResumableUploadMachine {
    /// One request; the driver adds credentials and what HTTP itself needs.
    package struct Request: Hashable, Sendable {
        package enum Target: Hashable, Sendable {
            /// The object's own URL.
            case object
            /// The upload resource's absolute URL.
            case resource(String)
        }

        package var method: String
        package var target: Target
        package var fields: HTTPFields
        /// The bytes of the content to send, possibly none but with `Content-Length: 0`; nil for no body at all.
        package var body: ByteRange?
    }

    /// One final response.
    package struct Response: Hashable, Sendable {
        package var status: Int
        package var fields: HTTPFields
        package var body: [UInt8]
        /// The absolute URL that was asked.
        package var url: String

        package init(status: Int, fields: HTTPFields, body: [UInt8] = [], url: String) {
            self.status = status
            self.fields = fields
            self.body = body
            self.url = url
        }
    }

    package enum Action: Hashable, Sendable {
        /// Send this once; feed interim responses to ``informational(status:fields:url:)``; answer `response` or `failed`.
        case send(Request)
        /// Make this durable before any content is sent; answer `journalled`.
        case journal(ResumableUploadState)
        /// Wait, then report `waited`.
        case wait(TransferPause)
        /// HEAD the target; answer `target` or `failed`.
        case verifyTarget
        case done(ObjectVersion)
        /// The target holds something else (nil: it is gone), which was left alone.
        case conflict(ObjectVersion?)
        /// This server, or this content, needs another protocol; nothing was sent.
        case unsupported
        case failed(TransferFault)
        /// Given up on request; the server was told.
        case cancelled
    }

    package enum Event: Hashable, Sendable {
        case response(Response)
        /// No answer to `send`, or `verifyTarget` failed.
        case failed(TransferFault, retryAfter: Double?)
        case journalled
        /// `expectedTag` is the lower-case hexadecimal MD5 of the content; it may be nil when the sizes differ.
        case target(ObjectVersion?, expectedTag: String?)
        case waited
    }

    /// The step under way.
    enum Phase: Hashable {
        case discovering
        case creating
        case journalling
        case asking
        case appending(ByteRange)
        case verifying
        case waiting(Step)
        case deleting(Step)
        case over
    }

    /// A step to take next.
    enum Step: Hashable {
        case discover
        /// Discover the next version down.
        case lower
        case create
        case ask
        case append
        case verify
        case end(Action)
    }
}
