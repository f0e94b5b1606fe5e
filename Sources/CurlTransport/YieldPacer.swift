// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Bandwidth
internal import Base
internal import CCurl
internal import CShims
internal import Glibc

/// How fast uploads go that stand back for others on the same line, and how their packets are marked.
///
/// Belongs to the transport's thread.
final class YieldPacer {
    /// What was seen of a connection last.
    private struct Path {
        var acknowledged: UInt64
        var retransmitted: UInt32
    }

    /// For how long the rate that was found is believed when nothing goes, in seconds.
    private static let memory = 30.0

    private let rules: TrafficRules?
    private var controller = YieldController()
    private var bucket = TokenBucket()
    private var paths: [Int32: Path] = [:]
    private var lastSample = 0.0
    private var lastUse = 0.0
    private var wasHeld = false
    /// The longest segment of the connections that were looked at last, in bytes.
    private var segment: Int64 = 1448

    init(_ rules: TrafficRules?) {
        self.rules = rules
    }

    /// The rate of all uploads of a class together, in bytes a second; nil: no limit.
    func rate(_ kind: TrafficClass) -> Int64? { yields(kind) ? Int64(controller.rate) : nil }

    func wait(_ kind: TrafficClass) -> Int64 {
        guard yields(kind) else { return 0 }
        let pause = bucket.wait(.interactive, now: SharedBandwidth.now())
        if pause > 0 { wasHeld = true }
        return pause
    }

    /// How many of so many bytes may go in one go.
    ///
    /// The pieces are small, as each is a queue for others, but for what the processor kept us from sending.
    func piece(_ kind: TrafficClass, wanted: Int64) -> Int64 {
        guard let rate = rate(kind) else { return .max }
        let available = bucket.available(.interactive, rate: rate, now: SharedBandwidth.now())
        let wish = max(TokenBucket.quantum(rate: rate / 4), available)
        let piece = YieldController.piece(wish, segment: segment, rate: rate)
        if piece < wanted { wasHeld = true }
        return piece
    }

    /// How many bytes go where no more than so many may: an even number of segments, if there are two.
    func whole(_ bytes: Int64, _ kind: TrafficClass) -> Int64 {
        guard let rate = rate(kind) else { return bytes }
        let whole = YieldController.piece(bytes, segment: segment, rate: rate)
        return whole <= bytes ? whole : bytes
    }

    func take(_ bytes: Int64, _ kind: TrafficClass) {
        guard let rate = rate(kind) else { return }
        bucket.take(bytes, rate: rate, now: SharedBandwidth.now())
    }

    private func yields(_ kind: TrafficClass) -> Bool { rules?.values.yieldsUpTo.map { kind <= $0 } ?? false }

    // MARK: connections

    /// Looks at the connections of uploads that stand back, and finds their rate; `now` in monotonic seconds.
    func observe(_ sockets: [(socket: Int32, kind: TrafficClass)], now: Double) {
        let interval = now - lastSample
        lastSample = now
        let yielding = sockets.filter { yields($0.kind) }
        guard !yielding.isEmpty else {
            paths = [:]
            if now - lastUse > Self.memory { controller = YieldController() }
            return
        }
        lastUse = now
        if let sample = sample(yielding.map(\.socket), interval) { controller.observe(sample) }
    }

    /// What the connections saw together; nil when nothing of it is news.
    private func sample(_ sockets: [Int32], _ interval: Double) -> YieldController.Sample? {
        var seen: [Int32: Path] = [:]
        var worst: (roundTrip: Double, shortest: Double)?
        var acknowledged: Int64 = 0
        var repeated: Int64 = 0
        segment = 0
        for socket in sockets {
            var info = moorage_path_info()
            guard moorage_path_info(socket, &info) == 0, info.round_trip > 0 else { continue }
            let path = Path(acknowledged: info.acknowledged, retransmitted: info.retransmitted)
            seen[socket] = path
            if !info.is_local { segment = max(segment, Int64(info.segment)) }
            guard let before = paths[socket], path.acknowledged > before.acknowledged else { continue }
            acknowledged += Int64(path.acknowledged - before.acknowledged)
            repeated += 1500 * Int64(path.retransmitted &- before.retransmitted)
            let (roundTrip, shortest) = Self.roundTrips(info)
            if worst.map({ roundTrip - shortest > $0.roundTrip - $0.shortest }) ?? true {
                worst = (roundTrip, shortest)
            }
        }
        paths = seen
        guard let worst else { return nil }
        defer { wasHeld = false }
        return YieldController.Sample(
            roundTrip: worst.roundTrip,
            shortest: worst.shortest,
            acknowledged: acknowledged,
            repeated: repeated,
            interval: interval,
            wasHeld: wasHeld
        )
    }

    /// How long a connection's packets are on their way and back, and how long without a queue, in seconds.
    private static func roundTrips(_ info: moorage_path_info) -> (now: Double, shortest: Double) {
        let shortest = Double(min(info.shortest_round_trip, info.round_trip)) / 1e6
        // Nothing queues within the machine; what takes long there are acknowledgements that are put off.
        if info.is_local { return (shortest, shortest) }
        // Of what goes now and then the last packet is acknowledged late, as another might follow (RFC 9293, 3.8.6.3):
        // then the times are far apart. In a queue all packets wait.
        let now = Double(info.round_trip) / 1e6 - Double(info.round_trip_deviation) / 1e6
        return (max(shortest, now), shortest)
    }

    /// Has the kernel treat a connection's packets as those of a class: their mark, and how far apart they go.
    ///
    /// A connection is used by one transfer after another, of whatever class.
    func mark(_ socket: Int32, as kind: TrafficClass) {
        guard let rules else { return }
        let isLow = kind < .interactive && rules.values.marksLowEffort
        // The codepoint 000001 in the upper six bits of the field (RFC 8622, RFC 2474).
        var field: Int32 = isLow ? 1 << 2 : 0
        setsockopt(socket, Int32(IPPROTO_IP), IP_TOS, &field, socklen_t(MemoryLayout<Int32>.size))
        setsockopt(socket, Int32(IPPROTO_IPV6), IPV6_TCLASS, &field, socklen_t(MemoryLayout<Int32>.size))
        // Pieces leave the process at once; the kernel spreads them (socket(7), SO_MAX_PACING_RATE).
        var pacing = rate(kind).map { UInt64(Double($0) * 1.25) } ?? UInt64.max
        setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &pacing, socklen_t(MemoryLayout<UInt64>.size))
    }
}
