// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CurlTransport
internal import HTTPWire
internal import ObjectStore
internal import Platform

/// Gets the answer of a ``FollowedGet``; called on the transfer thread.
protocol FollowedGetOwner: AnyObject, Sendable {
    /// The head of the answer that is no redirect; false gives it up.
    func getDidReceiveHead(status: Int, fields: HTTPFields) -> Bool
    /// Whether a piece of its body is welcome; false holds it until ``FollowedGet/goOn()``.
    func getMayReceive() -> Bool
    /// A piece of its body; false gives it up.
    func getDidReceive(_ bytes: UnsafeRawBufferPointer) -> Bool
    /// All that has arrived so far was handed over.
    func getDidDrain()
    /// The end, exactly once and last.
    func getDidFinish(_ result: Result<Void, StoreError>)
}

extension FollowedGetOwner {
    func getMayReceive() -> Bool { true }
}

/// One GET that follows redirects without blocking.
///
/// Everything but ``cancel()`` runs on the transfer thread.
final class FollowedGet: RangeFetch, TransferDelegate, @unchecked Sendable {
    /// How much of a redirect's own page is read to keep the connection.
    private static let pageLimit = 64 << 10

    private let client: HTTPClient
    private let fields: HTTPFields
    private let owner: any FollowedGetOwner
    private let control = Lock((transfer: Transfer?.none, isCancelled: false))

    private var url: WebURL
    private var redirects = 0
    private var redirection = Redirection.none
    private var pageBytes = 0

    init(_ client: HTTPClient, _ url: WebURL, fields: HTTPFields, owner: any FollowedGetOwner) {
        self.client = client
        self.url = url
        self.fields = fields
        self.owner = owner
    }

    /// Sends; to be called on the transfer thread.
    func begin() {
        redirection = .none
        pageBytes = 0
        if control.withLock({ $0.isCancelled }) { return end(StoreError(.cancelled, "cancelled")) }
        let started = client.transport.start(client.build("GET", url, fields), delegate: self)
        let isCancelled = control.withLock { control in
            control.transfer = started
            return control.isCancelled
        }
        if isCancelled { started.cancel() }
    }

    func cancel() {
        let transfer = control.withLock { control in
            control.isCancelled = true
            return control.transfer
        }
        transfer?.cancel()
    }

    func transferDidReceiveHead(status: Int, fields: HTTPFields) -> Bool {
        redirection = Redirection.judge(status: status, location: fields["location"], method: "GET", url: url)
        return redirection == .none ? owner.getDidReceiveHead(status: status, fields: fields) : true
    }

    /// Lets it go on after its owner had no room for more.
    func goOn() { control.withLock { $0.transfer }?.goOn() }

    func transferMayReceive() -> Bool { redirection == .none ? owner.getMayReceive() : true }

    func transferDidReceive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if redirection == .none { return owner.getDidReceive(bytes) }
        pageBytes += bytes.count
        return pageBytes <= Self.pageLimit
    }

    func transferDidDrain() { owner.getDidDrain() }

    func transferDidFinish(_ result: Result<TransferSummary, TransferError>) {
        if control.withLock({ $0.isCancelled }) { return end(StoreError(.cancelled, "cancelled")) }
        switch redirection {
        case .refuse(let reason): end(HTTPErrors.refusedRedirect(reason))
        case .follow(let target):
            redirects += 1
            guard redirects <= Redirection.limit else {
                return end(HTTPErrors.refusedRedirect("more than \(Redirection.limit) in a row"))
            }
            url = target
            begin()
        case .none:
            switch result {
            case .success: finish(.success(()))
            case .failure(let error): end(S3ErrorMapping.error(error))
            }
        }
    }

    private func end(_ error: StoreError) { finish(.failure(error)) }

    private func finish(_ result: Result<Void, StoreError>) {
        control.withLock { $0.transfer = nil }
        owner.getDidFinish(result)
    }
}
