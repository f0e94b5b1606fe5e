// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CCurl
internal import CShims
internal import Glibc
internal import Platform

/// Requests of other threads to the transfer thread, and the way to wake it.
final class TransportMailbox: @unchecked Sendable {
    enum Message: Sendable {
        case start(Transfer, TransferRequest, any TransferDelegate)
        case cancel(Transfer)
        case goOn(Transfer)
        case schedule(after: Double, @Sendable () -> Void)
        case networkChanged
        case stop
    }

    private struct State {
        var messages: [Message] = []
        var isClosed = false
        var owner: Int64 = 0
    }

    private static let isLibraryReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    /// The only call on it from other threads is curl_multi_wakeup, which is made for that.
    let multi: UnsafeMutableRawPointer
    private let state = Lock(State())

    init() throws(SystemError) {
        guard Self.isLibraryReady, let multi = curl_multi_init() else {
            throw SystemError.make(ENOMEM, "curl_multi_init")
        }
        self.multi = multi
    }

    deinit {
        curl_multi_cleanup(multi)
    }

    func post(_ message: Message) {
        // Waking under the lock: the engine closes the mailbox before the handle goes away.
        let isTaken = state.withLock { state in
            if state.isClosed { return false }
            state.messages.append(message)
            curl_multi_wakeup(multi)
            return true
        }
        guard !isTaken else { return }
        switch message {
        case .start(_, _, let delegate):
            delegate.transferDidFinish(.failure(TransferError(.cancelled, "the transport has ended")))
        case .schedule(_, let closure): closure()
        case .cancel, .goOn, .networkChanged, .stop: break
        }
    }

    /// All messages so far, in order.
    func take() -> [Message] {
        state.withLock { state in
            defer { state.messages = [] }
            return state.messages
        }
    }

    /// Refuses further messages and returns those that came too late.
    func close() -> [Message] {
        state.withLock { state in
            state.isClosed = true
            defer { state.messages = [] }
            return state.messages
        }
    }

    func becomeOwner() {
        let id = moorage_get_thread_id()
        state.withLock { $0.owner = id }
    }

    var isOwnerThread: Bool {
        let id = moorage_get_thread_id()
        return state.withLock { $0.owner == id }
    }
}
