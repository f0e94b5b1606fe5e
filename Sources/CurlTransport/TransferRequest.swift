// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import HTTPWire

/// What a request sends.
package enum TransferBody: Sendable {
    /// A range of an open file; the descriptor stays open and the bytes unchanged until the transfer is over.
    ///
    /// Bytes that a `check` does not accept end the transfer.
    case file(descriptor: Int32, range: ByteRange, check: (any FileCheck)? = nil)
    case bytes([UInt8])

    /// The length in bytes.
    package var count: Int64 {
        switch self {
        case .file(_, let range, _): range.count
        case .bytes(let bytes): Int64(bytes.count)
        }
    }
}

/// One HTTP request with its limits; times are in seconds.
package struct TransferRequest: Sendable {
    package var method: String
    /// An absolute http or https URL, percent-encoded; sent as it is.
    package var url: String
    /// Sent in this order.
    ///
    /// Content-Length and Expect are ours; Accept-Encoding is always `identity`.
    package var fields: HTTPFields
    /// nil sends no body at all, which differs from an empty one by `Content-Length: 0`.
    package var body: TransferBody?
    /// For resolving the name, connecting and the TLS handshake together.
    package var connectTimeout: Double = 10
    /// How long no byte may move in either direction; nil: without limit.
    package var stallTimeout: Double? = 30
    /// How few bytes in that time are as good as none.
    ///
    /// Reads set it, so that a trickle does not keep somebody waiting for ever; an answer that is kept alive by
    /// spaces while the server works is one byte now and then.
    package var leastBytes: Int64 = 1
    /// How long the server may take to answer when the whole request was sent; nil: without limit.
    package var answerTimeout: Double? = 30
    /// How long everything together may take; nil: without limit.
    ///
    /// The wait for one of our own connections counts while nothing moves on any of them.
    package var totalTimeout: Double?
    /// Ask before sending the body (`Expect: 100-continue`), and wait this long for the answer; nil: just send.
    package var expectTimeout: Double?
    /// Whether the body may be sent again, on a fresh connection, when a kept one dies without an answer.
    package var isReplayable = true
    /// Whether the transport's client certificate is shown to this server.
    package var showsClientCertificate = false
    /// How urgent it is now, which may change while it runs; called on the transfer thread.
    ///
    /// nil: as the transport's configuration has it.
    package var trafficClass: (@Sendable () -> TrafficClass)?
    /// How fast the body may go besides what holds for all; nil: as fast as that.
    ///
    /// Called as ``trafficClass`` is.
    package var pace: (@Sendable () -> (any TransferPace)?)?

    package init(method: String, url: String, fields: HTTPFields = HTTPFields(), body: TransferBody? = nil) {
        self.method = method
        self.url = url
        self.fields = fields
        self.body = body
    }
}
