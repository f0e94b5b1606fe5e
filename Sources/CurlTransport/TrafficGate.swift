// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Bandwidth
internal import Base
internal import Glibc

/// What a transfer has of the bandwidth in one direction.
struct TrafficShare {
    /// Bytes that were taken for it and have not gone; negative: more went than were taken.
    var credit: Int64 = 0
    /// Its place among those that wait; nil: it does not wait.
    var ticket: UInt64?
    /// It waited since this was last asked.
    var hasWaited = false
}

/// Lets transfers send and receive as far as the bandwidth goes: the more urgent first, then in turn.
///
/// Belongs to the transport's thread.
final class TrafficGate {
    private let bandwidth: SharedBandwidth?
    private var lastRate: Int64?
    private var nextTicket: UInt64 = 0
    /// The classes of those that wait, in each direction.
    private var waiting: [TrafficDirection: [UInt64: TrafficClass]] = [.up: [:], .down: [:]]
    let yielding: YieldPacer
    let sockets = SocketTable()

    init(_ bandwidth: SharedBandwidth?, yielding: YieldPacer) {
        self.bandwidth = bandwidth
        self.yielding = yielding
    }

    /// How many of `wanted` bytes a transfer may move now; 0: it has to wait, and counts as waiting from now on.
    ///
    /// What was received cannot be divided: all of it may be taken, and what it is too much is made up for.
    func admit(_ wanted: Int, _ direction: TrafficDirection, _ kind: TrafficClass, _ share: inout TrafficShare) -> Int {
        guard isLimited(direction, kind) else {
            share.credit = 0
            return wanted
        }
        if share.credit <= 0, !isAnyoneAhead(direction, kind) {
            share.credit += take(Int64(wanted), direction, kind)
        }
        guard share.credit > 0 else {
            hold(direction, kind, &share)
            return 0
        }
        let count = direction == .up ? Int(min(Int64(wanted), share.credit)) : wanted
        share.credit -= Int64(count)
        return count
    }

    /// Lets the next of those that wait go on, if there is anything for it: nil, and otherwise in how many seconds to ask
    /// again.
    ///
    /// `limit`: it can use no more bytes now.
    func release(
        _ direction: TrafficDirection,
        _ kind: TrafficClass,
        _ share: inout TrafficShare,
        limit: Int64 = .max
    ) -> Double? {
        if isLimited(direction, kind) {
            // One that waited for a limit of its own may have some left.
            if share.credit <= 0 { share.credit += take(limit, direction, kind) }
            guard share.credit > 0 else {
                hold(direction, kind, &share)
                return Double(max(1_000_000, wait(direction, kind))) / 1e9
            }
        }
        unhold(direction, &share)
        return nil
    }

    /// A transfer has ended: what it has left is given back, and what went besides bodies is counted.
    func settle(_ share: inout TrafficShare, _ direction: TrafficDirection, heads: Int64) {
        unhold(direction, &share)
        if share.credit > 0 { bandwidth?.giveBack(share.credit, direction) }
        bandwidth?.charge(heads - min(0, share.credit), direction)
        share.credit = 0
    }

    /// Counts what goes without having to wait.
    func charge(_ bytes: Int, _ direction: TrafficDirection) { bandwidth?.charge(Int64(bytes), direction) }

    /// How much the kernel is to take in ahead of us on a connection, in bytes; nil: as it likes.
    ///
    /// Left alone it takes in megabytes for each before it stops the other side, which no wait of ours brings back:
    /// what 50 ms bring at the full rate is enough to keep a line with such a round trip busy.
    var receiveBuffer: Int32? {
        bandwidth?.rate(.down).map { Int32(min(512 << 10, max(16 << 10, $0 / 20))) }
    }

    /// Has the kernel take in no more than that ahead of us.
    func boundReceiving(_ socket: Int32) {
        guard var size = receiveBuffer else { return }
        setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Whether the connections there are were made for another rate: the kernel takes in too much or too little on them.
    func takeHasNewRate() -> Bool {
        let rate = bandwidth?.rate(.down)
        defer { lastRate = rate }
        return rate != lastRate
    }

    // MARK: the buckets

    private func isLimited(_ direction: TrafficDirection, _ kind: TrafficClass) -> Bool {
        bandwidth?.rate(direction) != nil || direction == .up && yielding.rate(kind) != nil
    }

    private func wait(_ direction: TrafficDirection, _ kind: TrafficClass) -> Int64 {
        let others = direction == .up ? yielding.wait(kind) : 0
        return max(others, bandwidth?.wait(direction, kind) ?? 0)
    }

    /// Takes a piece, no more than `limit`, if every bucket has something; returns how many bytes.
    private func take(_ limit: Int64, _ direction: TrafficDirection, _ kind: TrafficClass) -> Int64 {
        guard wait(direction, kind) == 0 else { return 0 }
        let piece = direction == .up ? yielding.piece(kind, wanted: limit) : .max
        let most = min(limit, piece, bandwidth?.piece(direction, kind) ?? .max)
        let count = direction == .up && most < piece ? yielding.whole(most, kind) : most
        guard bandwidth?.take(count, direction, kind) ?? true else { return 0 }
        if direction == .up { yielding.take(count, kind) }
        return count
    }

    // MARK: those that wait

    private func isAnyoneAhead(_ direction: TrafficDirection, _ kind: TrafficClass) -> Bool {
        waiting[direction]?.values.contains { $0 >= kind } ?? false
    }

    private func hold(_ direction: TrafficDirection, _ kind: TrafficClass, _ share: inout TrafficShare) {
        holdAside(&share)
        if let ticket = share.ticket { waiting[direction]?[ticket] = kind }
    }

    /// Has a transfer wait for something of its own: nobody waits behind it.
    func holdAside(_ share: inout TrafficShare) {
        share.hasWaited = true
        if let ticket = share.ticket {
            waiting[.up]?[ticket] = nil
        } else {
            nextTicket += 1
            share.ticket = nextTicket
        }
    }

    private func unhold(_ direction: TrafficDirection, _ share: inout TrafficShare) {
        guard let ticket = share.ticket else { return }
        waiting[direction]?[ticket] = nil
        share.ticket = nil
    }
}
