// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import HTTPWire

/// Why the content of a request could not be read to its end.
package enum HTTPBodyError: Error, Hashable, Sendable {
    /// The connection ended or failed before the content did.
    case cutShort
    /// Nothing, or too little, came for longer than the server waits.
    case timedOut
    /// Another thread called ``HTTPRequestBody/interrupt()``.
    case interrupted
    /// The chunked coding or its trailer is wrong; the text says how.
    case malformed(String)
}

/// The content of a request, read once from its beginning to its end by the handler's thread.
///
/// A handler may leave it unread: the connection then drains or closes.
package protocol HTTPRequestBody: AnyObject, Sendable {
    /// The number of bytes that Content-Length announced (0 when there is no content), nil when chunked.
    var declaredLength: Int64? { get }
    /// The number of bytes that ``read(into:)`` has returned so far.
    var bytesRead: Int64 { get }
    /// The trailer fields of a chunked request, empty until the end has been read.
    var trailers: HTTPFields { get }
    /// Whether the whole content has been read.
    var isComplete: Bool { get }

    /// Reads what there is, waiting for at least one byte; 0 only at the true end of the content.
    ///
    /// The first call answers `Expect: 100-continue`. After an error every further call fails in the same way.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(HTTPBodyError) -> Int

    /// Makes ``read(into:)`` fail with ``HTTPBodyError/interrupted`` once what has already arrived is read.
    ///
    /// May be called from any thread at any time; once the request has been answered it does nothing. The
    /// handler can still send its answer; the connection is closed behind it.
    func interrupt()
}
