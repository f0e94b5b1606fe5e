// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Bandwidth
package import Base
internal import CCurl
internal import Platform

/// How the transport connects.
package struct TransportConfiguration: Sendable {
    /// How many connections there may be to one host at once; more requests wait their turn.
    ///
    /// Readahead, which nobody waits for, begins only while fewer are used: see `readaheadFetches` of the cache.
    package var connectionsPerHost = 16
    package var userAgent = "moorage"
    /// A file of certificates to trust instead of the system's.
    package var certificateBundle: String?
    /// Our own certificate and its key, files in PEM, for the requests that say so.
    package var clientCertificate: String?
    package var clientKey: String?
    /// What is shared with others of the bandwidth; nil: no limit.
    package var bandwidth: SharedBandwidth?
    /// How urgent requests are that do not say so.
    package var trafficClass = TrafficClass.interactive
    /// Which of them stand back for others on the line; nil: none, and none is marked.
    package var trafficRules: TrafficRules?

    package init() {}
}

/// A transfer that was started; give it up with ``cancel()``.
package final class Transfer: Sendable {
    private let mailbox: TransportMailbox

    init(mailbox: TransportMailbox) {
        self.mailbox = mailbox
    }

    /// Gives the transfer up, from any thread; its delegate still hears the end.
    package func cancel() {
        mailbox.post(.cancel(self))
    }

    /// Lets it go on after its delegate had no room for more, from any thread.
    package func goOn() {
        mailbox.post(.goOn(self))
    }
}

/// HTTP/1.1 over libcurl: one thread that drives all transfers of the process.
///
/// No redirect is followed, no content coding accepted, no response truncated silently.
package final class CurlTransport: Sendable {
    private let mailbox: TransportMailbox

    /// Starts the thread.
    package init(configuration: TransportConfiguration = TransportConfiguration()) throws(SystemError) {
        let mailbox = try TransportMailbox()
        self.mailbox = mailbox
        let engine = UncheckedBox(try TransportEngine(configuration, mailbox))
        try Thread.detached(name: "transfer") { engine.value.run() }
    }

    deinit {
        mailbox.post(.stop)
    }

    /// Starts a transfer; the delegate is kept until its end.
    @discardableResult
    package func start(_ request: TransferRequest, delegate: any TransferDelegate) -> Transfer {
        let transfer = Transfer(mailbox: mailbox)
        mailbox.post(.start(transfer, request, delegate))
        return transfer
    }

    /// Runs a closure on the transfer thread after so many seconds; it must not block.
    ///
    /// Closures still waiting when the transport ends are run then, early.
    package func schedule(after seconds: Double, _ closure: @escaping @Sendable () -> Void) {
        mailbox.post(.schedule(after: seconds, closure))
    }

    /// The machine's network is another one than before: no kept connection is used any more, and transfers on which
    /// nothing moves from now on are given up within a few seconds.
    package func networkChanged() {
        mailbox.post(.networkChanged)
    }

    /// Whether the caller is the transport's own thread, which must not wait for itself.
    package var isOnTransferThread: Bool { mailbox.isOwnerThread }
}

/// Hands the engine to its thread, which is its only user from then on.
private struct UncheckedBox<Value>: @unchecked Sendable {
    let value: Value

    init(_ value: Value) {
        self.value = value
    }
}
