// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import HTTPWire

/// How a transfer that got a complete response ended.
package struct TransferSummary: Hashable, Sendable {
    package var status: Int
    /// Body bytes sent to the network, repetitions included.
    package var bytesSent: Int64
    /// Body bytes received.
    package var bytesReceived: Int64
}

/// Follows a transfer; called on the transport's thread, so nothing here may block.
package protocol TransferDelegate: AnyObject, Sendable {
    /// A 1xx response, 100 included.
    func transferDidReceiveInformational(status: Int, fields: HTTPFields)
    /// The final response's head; false gives the transfer up.
    func transferDidReceiveHead(status: Int, fields: HTTPFields) -> Bool
    /// Whether a piece of the body is welcome; false holds the transfer, and with it the server, until ``Transfer/goOn()``.
    func transferMayReceive() -> Bool
    /// A piece of the body; false gives the transfer up.
    func transferDidReceive(_ bytes: UnsafeRawBufferPointer) -> Bool
    /// The pieces of the body that have arrived so far were all handed over.
    func transferDidDrain()
    /// So many bytes of the body have left this process.
    func transferDidSend(_ count: Int64)
    /// The end, exactly once and last.
    func transferDidFinish(_ result: Result<TransferSummary, TransferError>)
}

extension TransferDelegate {
    package func transferDidReceiveInformational(status: Int, fields: HTTPFields) {}
    package func transferMayReceive() -> Bool { true }
    package func transferDidDrain() {}
    package func transferDidSend(_ count: Int64) {}
}
