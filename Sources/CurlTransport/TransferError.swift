// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Why a transfer ended without a complete response.
package struct TransferError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Hashable, Sendable {
        /// No name, no route, refused, or no connection within its time: nothing was sent.
        case unreachable
        /// The certificate or the TLS set-up is not acceptable.
        case insecure
        /// The proxy wants a login before it connects (RFC 9110, section 15.5.8): nothing was sent.
        case proxyRefused
        /// No byte moved, or no answer came, for too long.
        case timeout
        /// The connection broke after the request had begun; it may have been carried out.
        case connectionLost
        /// Reading the body to send failed, or the file is shorter than announced.
        case localInput
        /// ``Transfer/cancel()`` was called.
        case cancelled
        /// The delegate did not want the response.
        case refusedByDelegate
        /// The request cannot be sent: bad URL or header.
        case invalidRequest
        /// The response is not HTTP, or above a limit.
        case protocolViolation
    }

    package let kind: Kind
    /// One line for people; names hosts, never a path, query or header.
    package let message: String
    /// How many body bytes went to the network, repetitions included.
    package let bytesSent: Int64

    package init(_ kind: Kind, _ message: String, bytesSent: Int64 = 0) {
        self.kind = kind
        self.message = message
        self.bytesSent = bytesSent
    }

    package var description: String { message }
}
