// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CCurl
internal import HTTPWire

/// A transfer that libcurl works on: its handle and what the callbacks need.
///
/// Everything here belongs to the transport's thread.
final class ActiveTransfer {
    let transfer: Transfer
    let request: TransferRequest
    let delegate: any TransferDelegate
    let handle: UnsafeMutableRawPointer
    let errorText = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
    var headerList: UnsafeMutablePointer<curl_slist>?
    var body: BodyReader?
    var watchdog: TransferWatchdog
    let gate: TrafficGate?
    /// What it has of the bandwidth.
    var shares: [TrafficDirection: TrafficShare] = [:]
    var areSharesSettled = false
    let standardClass: TrafficClass

    /// What becomes of a piece of the body.
    enum Reception {
        case taken
        /// It is offered again when there is bandwidth for it, and the delegate takes it.
        case held
        /// The transfer ends.
        case refused
    }

    private var heads = HeadReader()
    /// The final head once it was given to the delegate.
    private(set) var status: Int?
    /// A 417 that libcurl may be about to answer by repeating the request without Expect.
    private var refusedExpectation: HeadReader.Head?
    private(set) var bytesReceived: Int64 = 0
    /// Whether libcurl was let send the request.
    private var hasBegunBefore = false
    /// Whether pieces were given to the delegate since it was told that there are no more for now.
    private var hasReceived = false
    /// How much is to come before the thread is woken for more.
    var mark = LowWaterMark()
    /// The mark that its connection has, in bytes.
    var markSet = LowWaterMark.none
    /// What its answer says of marks; nil before anything of the body has come.
    var markTerms: MarkTerms?
    /// Whether the delegate wants no more of the body for now.
    private(set) var isHeldByDelegate = false
    /// Why we made libcurl stop; more telling than its own code.
    private(set) var ownProblem: TransferError?

    init?(
        _ transfer: Transfer,
        _ request: TransferRequest,
        _ delegate: any TransferDelegate,
        _ gate: TrafficGate?,
        _ standardClass: TrafficClass,
        startedAt: Double
    ) {
        guard let handle = curl_easy_init() else { return nil }
        self.transfer = transfer
        self.request = request
        self.delegate = delegate
        self.gate = gate
        self.standardClass = standardClass
        self.handle = handle
        errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        body = request.body.map { BodyReader($0, isReplayable: request.isReplayable) }
        watchdog = TransferWatchdog(request, startedAt: startedAt)
    }

    deinit {
        curl_easy_cleanup(handle)
        curl_slist_free_all(headerList)
        errorText.deallocate()
    }

    static func of(_ context: UnsafeMutableRawPointer?) -> ActiveTransfer? {
        context.map { Unmanaged<ActiveTransfer>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Body bytes libcurl has written to the socket.
    var bytesSent: Int64 {
        var count: curl_off_t = 0
        _ = moorage_curl_get_offset(handle, CURLINFO_SIZE_UPLOAD_T, &count)
        return Int64(count)
    }

    /// What went either way so far, in bytes of bodies.
    var moved: Int64 { bytesSent + bytesReceived }

    /// Whether it has to be answered in full in a set time.
    var isUrgent: Bool { request.totalTimeout != nil }

    /// Whether the connection stands and the request is under way.
    var hasBegun: Bool {
        var time: curl_off_t = 0
        _ = moorage_curl_get_offset(handle, CURLINFO_PRETRANSFER_TIME_T, &time)
        return time > 0
    }

    /// What the proxy said to a CONNECT; 0: it was not asked.
    private var proxyStatus: Int {
        var status = 0
        _ = moorage_curl_get_long(handle, CURLINFO_HTTP_CONNECTCODE, &status)
        return status
    }

    // MARK: Callbacks

    /// Whether libcurl, which has a connection now, may send the request; false stops the transfer.
    ///
    /// Where a kept connection turns out to be closed, libcurl sends a request once more on another. What has a body shows
    /// that by the rewind; what has none would be repeated unseen.
    func mayBegin() -> Bool {
        defer { hasBegunBefore = true }
        clearMark()
        guard hasBegunBefore, !request.isReplayable, (request.body?.count ?? 0) == 0 else { return true }
        return stop(.connectionLost, "the connection closed before the answer")
    }

    /// Takes a header line; false stops the transfer.
    func receivedHeader(_ line: UnsafeRawBufferPointer) -> Bool {
        watchdog.noteHeader(line.count)
        switch heads.take(line) {
        case .none: return true
        case .violation(let reason): return stop(.protocolViolation, reason)
        case .head(let head): return received(head)
        }
    }

    private func received(_ head: HeadReader.Head) -> Bool {
        if head.status < 200 {
            delegate.transferDidReceiveInformational(status: head.status, fields: head.fields)
            return true
        }
        if head.status == 417, request.expectTimeout != nil, refusedExpectation == nil {
            refusedExpectation = head
            return true
        }
        guard status == nil else { return stop(.protocolViolation, "two final responses to one request") }
        status = head.status
        return delegate.transferDidReceiveHead(status: head.status, fields: head.fields)
            || stop(.refusedByDelegate, "the response is not wanted")
    }

    /// Takes a piece of the body.
    func receivedData(_ bytes: UnsafeRawBufferPointer) -> Reception {
        isHeldByDelegate = status != nil && !delegate.transferMayReceive()
        guard !isHeldByDelegate, admit(bytes.count, .down) == bytes.count else {
            // libcurl keeps what it has read, which is not to be waited for.
            mark.giveUp()
            return .held
        }
        // The body of a 417 that is being retried is nobody's.
        guard status != nil else { return .taken }
        bytesReceived += Int64(bytes.count)
        hasReceived = true
        if delegate.transferDidReceive(bytes) { return .taken }
        _ = stop(.refusedByDelegate, "the response is not wanted")
        return .refused
    }

    /// The delegate may take more; what it was offered is offered again.
    func goOn() {
        guard isHeldByDelegate else { return }
        isHeldByDelegate = false
        resume()
    }

    /// Whether pieces were taken since this was last asked.
    func takeHasReceived() -> Bool {
        defer { hasReceived = false }
        return hasReceived
    }

    /// Fills libcurl's send buffer; nil stops the transfer, `CURL_READFUNC_PAUSE` holds it.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> Int? {
        guard let position = body?.position else { return 0 }
        if position == 0, let socket { gate?.yielding.mark(socket, as: trafficClass) }
        // libcurl asks for more only when it has sent all it had.
        if position > 0 { delegate.transferDidSend(position) }
        let wanted = Int(min(Int64(buffer.count), (body?.body.count ?? 0) - position))
        let admitted = admit(wanted, .up)
        if admitted < wanted, admitted == 0 { return Int(CURL_READFUNC_PAUSE) }
        if let count = body?.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<admitted])) { return count }
        _ = stop(.localInput, body?.problem ?? "reading failed")
        return nil
    }

    func stop(_ kind: TransferError.Kind, _ message: String) -> Bool {
        if ownProblem == nil { ownProblem = TransferError(kind, message) }
        return false
    }

    // MARK: End

    /// Tells the delegate how it ended.
    func finish(_ code: CURLcode) {
        settleShares()
        let sent = bytesSent
        if let problem = ownProblem {
            finish(failure: TransferError(problem.kind, problem.message, bytesSent: sent))
            return
        }
        guard code == CURLE_OK else {
            if proxyStatus == 407 {
                finish(failure: TransferError(.proxyRefused, "CONNECT: 407", bytesSent: sent))
                return
            }
            finish(failure: TransferError(code, detail: String(cString: errorText), bytesSent: sent))
            return
        }
        if status == nil, let head = refusedExpectation {
            status = head.status
            guard delegate.transferDidReceiveHead(status: head.status, fields: head.fields) else {
                finish(failure: TransferError(.refusedByDelegate, "the response is not wanted", bytesSent: sent))
                return
            }
        }
        guard let status else {
            // libcurl takes an end within the head for the end of the answer.
            finish(failure: TransferError(.connectionLost, "the connection closed within the head", bytesSent: sent))
            return
        }
        if let body = body?.body, sent > 0 { delegate.transferDidSend(min(sent, body.count)) }
        let summary = TransferSummary(status: status, bytesSent: sent, bytesReceived: bytesReceived)
        delegate.transferDidFinish(.success(summary))
    }

    func finish(failure: TransferError) {
        settleShares()
        delegate.transferDidFinish(.failure(hidesRequest(failure) ? lost(failure) : failure))
    }

    /// Whether an error is that of a second connection, which libcurl made to send the request once more: the first one may
    /// have taken it.
    private func hidesRequest(_ failure: TransferError) -> Bool {
        guard hasBegunBefore, !request.isReplayable else { return false }
        return [.unreachable, .insecure, .proxyRefused].contains(failure.kind)
    }

    private func lost(_ failure: TransferError) -> TransferError {
        TransferError(.connectionLost, failure.message, bytesSent: failure.bytesSent)
    }
}
