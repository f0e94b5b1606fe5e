// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CCurl
internal import Glibc
internal import Platform

/// The loop of the transfer thread.
final class TransportEngine {
    /// How often waiting transfers are looked at, in seconds.
    private static let tick = 0.2

    private let configuration: TransportConfiguration
    private let mailbox: TransportMailbox
    let gate: TrafficGate
    private var active: [UnsafeMutableRawPointer: ActiveTransfer] = [:]
    private var timers: [(due: Double, closure: @Sendable () -> Void)] = []
    private var lastTick = 0.0
    /// When the last wait was over, in monotonic seconds: what comes later may be told wrongly by a standstill.
    private var turn = monotonicSeconds()
    /// How long the last wait for the network was, in seconds.
    private var waited = 0.0
    /// Connections from before this time are used no more: one of them proved dead, or the way is another.
    private var distrusted = -Double.infinity
    /// What had moved on all connections when the transfers were looked at last, in bytes of the ones of then.
    private var moved: Int64 = 0
    /// A transfer was answered in full since.
    private var hasCompleted = false
    /// When that was so, or more had moved, as far as is known.
    private var movedAt = -Double.infinity
    /// How long nothing may move for all of them to count as standing still, in seconds.
    private static let standstill = 1.0
    /// The same of those transfers alone that have to be answered in time.
    private var urgent: (moved: Int64, hasCompleted: Bool, movedAt: Double) = (0, false, -.infinity)
    /// How long none of these may get on, in seconds: one answer on a slow line may take so long.
    private static let urgentStandstill = 5.0
    private var isStopping = false

    init(_ configuration: TransportConfiguration, _ mailbox: TransportMailbox) throws(SystemError) {
        self.configuration = configuration
        self.mailbox = mailbox
        gate = TrafficGate(configuration.bandwidth, yielding: YieldPacer(configuration.trafficRules))
        let connections = max(1, configuration.connectionsPerHost)
        _ = moorage_curl_multi_set_long(mailbox.multi, CURLMOPT_MAX_HOST_CONNECTIONS, connections)
        _ = moorage_curl_multi_set_long(mailbox.multi, CURLMOPT_MAXCONNECTS, 2 * connections)
        _ = moorage_curl_multi_set_long(mailbox.multi, CURLMOPT_PIPELINING, Int(CURLPIPE_NOTHING))
    }

    /// Runs until the transport is gone.
    func run() {
        mailbox.becomeOwner()
        blockBrokenPipeSignal()
        while !isStopping {
            for message in mailbox.take() { handle(message) }
            var running: Int32 = 0
            curl_multi_perform(mailbox.multi, &running)
            collectFinished()
            let now = monotonicSeconds()
            for transfer in active.values { transfer.drain(waited: waited, now: now) }
            let release = releaseHeld()
            runTimers(now)
            if now - lastTick >= Self.tick {
                lastTick = now
                checkWaiting(now)
                observePaths(now)
            }
            if isStopping { break }
            wait(pollTimeout(now, release))
        }
        let late = mailbox.close()
        let ended = TransferError(.cancelled, "the transport has ended")
        for transfer in Array(active.values) { end(transfer, ended) }
        for timer in timers { timer.closure() }
        for message in late {
            switch message {
            case .start(_, _, let delegate): delegate.transferDidFinish(.failure(ended))
            case .schedule(_, let closure): closure()
            case .cancel, .goOn, .networkChanged, .stop: break
            }
        }
    }

    /// Keeps a write of the TLS library to a closed connection from ending the process: libcurl guards its own
    /// writes only.
    private func blockBrokenPipeSignal() {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }

    private func wait(_ milliseconds: Int32) {
        // From the last turn on: where nobody was there between two waits, nobody took answers either.
        let start = monotonicSeconds()
        let due = turn + Double(milliseconds) / 1000
        curl_multi_poll(mailbox.multi, nil, 0, milliseconds, nil)
        turn = monotonicSeconds()
        waited = turn - start
        AttendedClock.shared.noteWait(until: due, now: turn)
    }

    /// The time of this turn, by ``AttendedClock``.
    private var attended: Double { AttendedClock.shared.seconds(at: turn) }

    /// How long to wait for the network, in milliseconds.
    private func pollTimeout(_ now: Double, _ release: Double?) -> Int32 {
        let idle =
            active.isEmpty ? 60.0 : active.values.contains { $0.mark.isSet } ? LowWaterMark.longestWait : Self.tick
        let due = timers.map { max(0, $0.due - now) }.min() ?? idle
        return Int32((min(idle, due, release ?? idle) * 1000).rounded(.up))
    }

    /// Uses no connection for further requests that there is now.
    func distrustConnections() { distrusted = monotonicSeconds() }

    var activeTransfers: Dictionary<UnsafeMutableRawPointer, ActiveTransfer>.Values { active.values }

    private func runTimers(_ now: Double) {
        guard timers.contains(where: { $0.due <= now }) else { return }
        let due = timers.filter { $0.due <= now }
        timers.removeAll { $0.due <= now }
        for timer in due { timer.closure() }
    }

    private func handle(_ message: TransportMailbox.Message) {
        switch message {
        case .start(let transfer, let request, let delegate): start(transfer, request, delegate)
        case .cancel(let transfer):
            guard let found = active.values.first(where: { $0.transfer === transfer }) else { return }
            end(found, TransferError(.cancelled, "cancelled", bytesSent: found.bytesSent))
        case .goOn(let transfer): active.values.first { $0.transfer === transfer }?.goOn()
        case .schedule(let seconds, let closure): timers.append((monotonicSeconds() + max(0, seconds), closure))
        case .networkChanged:
            distrustConnections()
            for transfer in active.values { transfer.watchdog.doubt(at: attended) }
        case .stop: isStopping = true
        }
    }

    private func start(_ transfer: Transfer, _ request: TransferRequest, _ delegate: any TransferDelegate) {
        let now = monotonicSeconds()
        let startedAt = attended
        let kind = configuration.trafficClass
        guard let new = ActiveTransfer(transfer, request, delegate, gate, kind, startedAt: startedAt) else {
            delegate.transferDidFinish(.failure(TransferError(.invalidRequest, "out of memory")))
            return
        }
        if let problem = new.configure(configuration, oldestConnection: now - distrusted) {
            new.finish(failure: problem)
            return
        }
        let result = curl_multi_add_handle(mailbox.multi, new.handle)
        guard result == CURLM_OK else {
            new.finish(failure: TransferError(.invalidRequest, "libcurl refuses the transfer (\(result.rawValue))"))
            return
        }
        active[new.handle] = new
    }

    private func collectFinished() {
        var left: Int32 = 0
        while let message = curl_multi_info_read(mailbox.multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle else { continue }
            // The message lies in the handle: read it before the handle is removed.
            let code = moorage_curl_message_result(message)
            guard let transfer = active.removeValue(forKey: handle) else { continue }
            curl_multi_remove_handle(mailbox.multi, handle)
            if code == CURLE_OK {
                hasCompleted = true
                urgent.hasCompleted = urgent.hasCompleted || transfer.isUrgent
            }
            transfer.finish(code)
        }
    }

    private func checkWaiting(_ now: Double) {
        let attended = attended
        let isMoving = isMoving(attended)
        for transfer in Array(active.values) {
            let problem = transfer.watchdog.check(
                now: attended,
                hasBegun: transfer.hasBegun,
                isOtherMoving: isMoving,
                wasHeld: transfer.takeHasWaited(),
                sent: transfer.bytesSent,
                received: transfer.bytesReceived,
                hasHead: transfer.status != nil
            )
            guard let problem else { continue }
            distrusted = now
            end(transfer, TransferError(problem.kind, problem.message, bytesSent: transfer.bytesSent))
        }
    }

    /// Whether transfers get on, or wait for bandwidth.
    ///
    /// Those that have to be answered in time have connections that no others take: when they wait behind such that are never
    /// answered, bytes that come elsewhere do not help them.
    private func isMoving(_ now: Double) -> Bool {
        let running = active.values.filter { $0.hasBegun }
        let lacksBandwidth = active.values.contains { $0.lacksBandwidth }
        let count = active.values.reduce(0) { $0 + $1.moved }
        if hasCompleted || count > moved || lacksBandwidth { movedAt = now }
        (moved, hasCompleted) = (count, false)
        let inTime = running.filter { $0.isUrgent }
        let urgentCount = inTime.reduce(0) { $0 + $1.moved }
        if urgent.hasCompleted || urgentCount > urgent.moved || inTime.isEmpty || lacksBandwidth {
            urgent.movedAt = now
        }
        (urgent.moved, urgent.hasCompleted) = (urgentCount, false)
        return now - movedAt < Self.standstill && now - urgent.movedAt < Self.urgentStandstill
    }

    private func end(_ transfer: ActiveTransfer, _ error: TransferError) {
        active[transfer.handle] = nil
        curl_multi_remove_handle(mailbox.multi, transfer.handle)
        transfer.finish(failure: error)
    }
}
