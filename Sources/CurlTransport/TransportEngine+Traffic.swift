// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CCurl

extension TransportEngine {
    /// Lets those transfers go on that there is bandwidth for, the more urgent first; returns in how many seconds there
    /// will be some for others, nil when none waits.
    func releaseHeld() -> Double? {
        var next: Double?
        for direction in TrafficDirection.allCases {
            let held = heldTransfers(direction)
            for transfer in held {
                if let pause = transfer.release(direction) {
                    next = min(next ?? pause, pause)
                    // One that waits for what it has of its own is in nobody's way.
                    if transfer.isPaced(direction) { continue }
                    break
                }
            }
        }
        return next
    }

    /// Looks at the connections of uploads: how they are to be marked, and how much of the line others use.
    func observePaths(_ now: Double) {
        var sockets: [(socket: Int32, kind: TrafficClass)] = []
        for transfer in activeTransfers where transfer.hasBegun {
            guard let socket = transfer.socket else { continue }
            gate.boundReceiving(socket)
            guard transfer.body != nil else { continue }
            gate.yielding.mark(socket, as: transfer.trafficClass)
            sockets.append((socket, transfer.trafficClass))
        }
        gate.yielding.observe(sockets, now: now)
        if gate.takeHasNewRate() { distrustConnections() }
    }

    /// Those that wait, in the order in which they go on.
    private func heldTransfers(_ direction: TrafficDirection) -> [ActiveTransfer] {
        activeTransfers.compactMap { transfer in
            transfer.shares[direction]?.ticket.map { (transfer, transfer.trafficClass, $0) }
        }.sorted { ($1.1, $0.2) < ($0.1, $1.2) }.map(\.0)
    }
}

extension ActiveTransfer {
    var trafficClass: TrafficClass { request.trafficClass?() ?? standardClass }

    /// The ports of the connection it uses; nil before it has one.
    var ports: (local: Int, remote: Int)? {
        var localPort = 0
        var remotePort = 0
        guard moorage_curl_get_long(handle, CURLINFO_LOCAL_PORT, &localPort) == CURLE_OK,
            moorage_curl_get_long(handle, CURLINFO_PRIMARY_PORT, &remotePort) == CURLE_OK, localPort > 0
        else { return nil }
        return (localPort, remotePort)
    }

    /// The connection it uses; nil before it has one.
    var socket: Int32? {
        ports.flatMap { gate?.sockets.find(localPort: $0.local, remotePort: $0.remote).first }
    }

    /// Whether it may be made to wait: what has to be complete by a certain time is counted and goes at once.
    private var mayBeHeld: Bool { request.totalTimeout == nil }

    /// How many of so many bytes may go now; 0: none before ``release(_:)``.
    func admit(_ wanted: Int, _ direction: TrafficDirection) -> Int {
        guard wanted > 0, let gate else { return wanted }
        guard mayBeHeld else {
            gate.charge(wanted, direction)
            return wanted
        }
        guard direction == .up, let pace = request.pace?() else {
            return gate.admit(wanted, direction, trafficClass, &shares[direction, default: TrafficShare()])
        }
        guard pace.wait() == 0 else {
            gate.holdAside(&shares[direction, default: TrafficShare()])
            return 0
        }
        let piece = Int(min(Int64(wanted), pace.piece()))
        let count = gate.admit(piece, direction, trafficClass, &shares[direction, default: TrafficShare()])
        pace.take(Int64(count))
        return count
    }

    /// Whether it waits for its own limit, not for that of all.
    func isPaced(_ direction: TrafficDirection) -> Bool { direction == .up && request.pace?()?.wait() ?? 0 > 0 }

    /// Goes on after a wait, if there is bandwidth; otherwise in how many seconds to ask again.
    func release(_ direction: TrafficDirection) -> Double? {
        guard let gate else { return nil }
        let pace = direction == .up ? request.pace?() : nil
        if let pause = pace?.wait(), pause > 0 {
            gate.holdAside(&shares[direction, default: TrafficShare()])
            return Double(max(1_000_000, pause)) / 1e9
        }
        let limit = pace?.piece() ?? .max
        let pause = gate.release(direction, trafficClass, &shares[direction, default: TrafficShare()], limit: limit)
        guard pause == nil else { return pause }
        resume()
        return nil
    }

    /// Lets libcurl go on; of the two directions only what still waits stays held.
    ///
    /// The write callback may be called from in here.
    func resume() {
        var held: Int32 = CURLPAUSE_CONT
        if shares[.up]?.ticket != nil { held |= CURLPAUSE_SEND }
        if shares[.down]?.ticket != nil || isHeldByDelegate { held |= CURLPAUSE_RECV }
        curl_easy_pause(handle, held)
    }

    /// Whether it waits for bandwidth.
    var lacksBandwidth: Bool { shares.values.contains { $0.hasWaited } }

    /// Whether it waited for us since this was asked last: then nobody else kept it waiting.
    func takeHasWaited() -> Bool {
        defer {
            for direction in TrafficDirection.allCases where shares[direction]?.ticket == nil {
                shares[direction]?.hasWaited = false
            }
        }
        return lacksBandwidth || isHeldByDelegate
    }

    /// Counts what went besides the bodies, and gives back what was not used.
    func settleShares() {
        guard let gate, !areSharesSettled else { return }
        areSharesSettled = true
        var requestSize = 0
        var headerSize = 0
        _ = moorage_curl_get_long(handle, CURLINFO_REQUEST_SIZE, &requestSize)
        _ = moorage_curl_get_long(handle, CURLINFO_HEADER_SIZE, &headerSize)
        gate.settle(&shares[.up, default: TrafficShare()], .up, heads: Int64(requestSize))
        gate.settle(&shares[.down, default: TrafficShare()], .down, heads: Int64(headerSize))
    }
}
