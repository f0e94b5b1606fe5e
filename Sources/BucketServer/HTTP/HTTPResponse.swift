// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import HTTPWire
package import Platform

/// An open file that several answers can share; closed with the last reference.
package final class OpenFile: Sendable {
    package let descriptor: FileDescriptor

    package init(_ descriptor: consuming FileDescriptor) {
        self.descriptor = descriptor
    }
}

/// The content of an answer.
package enum HTTPResponseBody: Sendable {
    case none
    case bytes([UInt8])
    /// Part of a file, sent with sendfile(2).
    case file(OpenFile, ByteRange)

    /// The number of bytes.
    package var count: Int64 {
        switch self {
        case .none: 0
        case .bytes(let bytes): Int64(bytes.count)
        case .file(_, let range): range.count
        }
    }
}

/// Sends the answer to one request, from the handler's thread only.
package protocol HTTPResponder: AnyObject, Sendable {
    /// Whether the final answer has been sent (or has failed to be).
    var hasSentFinal: Bool { get }

    /// Sends an interim answer, 102 to 199, at once; nothing to clients of HTTP/1.0 and after the final answer.
    func sendInformational(_ status: Int, _ fields: HTTPFields)

    /// Sends the final answer.
    ///
    /// Content-Length, Date and Connection are added. To a HEAD request the content is left out but counted in
    /// Content-Length. 204 and 304 never have content. A failing connection is not reported: it is closed, and
    /// reading the request's content fails too. A second final answer is ignored.
    func send(_ status: Int, _ fields: HTTPFields, _ body: HTTPResponseBody)
}

/// Answers requests; called on many threads at once, one request a thread.
package protocol HTTPRequestHandler: Sendable {
    /// Answers `request` through `responder`, blocking as long as it takes.
    func handle(_ request: HTTPRequest, body: any HTTPRequestBody, responder: any HTTPResponder)
}

/// A whole final answer as a value.
package struct HTTPAnswer: Sendable {
    package var status: Int
    package var fields: HTTPFields
    package var body: HTTPResponseBody

    package init(_ status: Int, _ fields: HTTPFields = HTTPFields(), _ body: HTTPResponseBody = .none) {
        self.status = status
        self.fields = fields
        self.body = body
    }
}

/// Decides who may do what, for handlers that wrap the one which normally checks it.
package protocol HTTPRequestAuthorizer: Sendable {
    /// The refusal to answer with, nil when the request may go on. Looks at the head only.
    func refusal(of request: HTTPRequest) -> HTTPAnswer?

    /// The SHA-256 that the content must have for the request's authority to extend to it; nil for any content.
    func promisedDigest(of request: HTTPRequest) -> [UInt8]?
}

extension HTTPRequestAuthorizer {
    package func promisedDigest(of request: HTTPRequest) -> [UInt8]? { nil }
}
