// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import ObjectStore
internal import Platform
internal import Policy

/// What is wrong with a server for the volumes on it together, so that one of them asks it for all.
enum ServerOutage: Hashable, Sendable {
    /// No connection comes about: so it is for whoever asks.
    case noConnection
    /// It answers with failures of its own, or breaks off.
    case failing
}

/// What a server has failed since it answered well last, whichever volume asked.
struct ServerFailures: Sendable {
    /// As many in a row are no accident, nor one bucket's affair.
    static let enough = 5
    /// Failures with more seconds between them are not in a row.
    static let memory = 120.0

    var count = 0
    /// When the last was (monotonic seconds).
    var last = 0.0

    /// Whether it fails whoever asks.
    func areEnough(_ now: Double) -> Bool { count >= Self.enough && now < last + Self.memory }
}

/// Volumes with the same server: one of them finds out for all when it cannot be used, and when it can again.
extension Engine {
    /// Who was answered well that many seconds ago is answered well by a server that fails others.
    private static let freshAnswer = 10.0

    /// The server of a volume cannot be used: the others on it need not find that out, one request each.
    ///
    /// Those whose requests are under way find out by themselves: theirs may have a connection that lasts. That a server
    /// fails may be one bucket's affair: it holds for no other that it has just answered well.
    func shareLoss(of id: String, _ error: StoreError) {
        guard let outage = error.outage else { return }
        let others = state.inspect { state in
            let busy = Set(state.jobs.keys.map(\.volume))
            let fresh = Timestamp.now().advanced(bySeconds: -Self.freshAnswer)
            guard outage == .noConnection || state.isFailing(id) else { return [String]() }
            return state.neighbours(of: id) { volume in
                guard volume.facts.isOpen, !busy.contains(volume.session.id) else { return false }
                if outage == .noConnection { return true }
                // Where nothing waits there is nothing to spare the server.
                return !state.scheduler.isEmpty(of: volume.session.id) && !volume.hasAnswered(since: fresh)
            }
        }
        for other in others {
            observe(other) { volume, now in
                volume.lastTurn = 0
                volume.facts.lose(error, source: "another volume of the server", at: now)
                volume.trouble = error.message
                volume.outage = outage
                volume.isHeldForOthers = outage == .failing
            }
        }
        state.inspect { $0.spread(outage, from: id) }
    }

    /// A question to the server of a volume was not answered, or the volume's keys keep it from being asked.
    func noteUnanswered(_ id: String, _ error: StoreError, after before: ServerOutage?) {
        state.inspect { state in
            guard state.volumes[id]?.facts.isOpen == false else { return }
            state.volumes[id]?.outage = error.outage
            state.volumes[id]?.isHeldForOthers = false
            if let outage = error.outage { state.spread(outage, from: id) }
        }
        // It takes connections again: whether it fails for the others too they find out.
        if before == .noConnection, error.outage == .failing { release(on: id) { $0.outage == .noConnection } }
    }

    /// The server of a volume was asked, and has answered after an outage, if there was one: who waits for it goes on.
    ///
    /// Without `isForAll` the volume itself had met no failure: those that had find out by themselves.
    func shareAnswer(of id: String, after outage: ServerOutage?, isForAll: Bool = true) {
        state.inspect { _ = $0.noteServerAnswer(of: id) }
        release(on: id) { volume in
            // A server that takes connections may still fail for whom it failed before.
            volume.outage == .noConnection || volume.isHeldForOthers || outage == .failing && isForAll
        }
    }

    /// The server of a volume has answered a request of its work.
    func noteAnswer(of id: String, after outage: ServerOutage?) {
        if let outage { return shareAnswer(of: id, after: outage) }
        if state.inspect({ $0.noteServerAnswer(of: id) }) { release(on: id, where: \.isHeldForOthers) }
    }

    /// An outage is over for other volumes on the server of a volume.
    private func release(on id: String, where condition: (Volume) -> Bool) {
        for other in state.inspect({ state in state.waitingNeighbours(of: id, where: condition) }) {
            observe(other) { volume, now in
                volume.facts.connection.observe(.online, source: "another volume of the server", at: now)
                volume.answered()
                volume.trouble = nil
                // What it finds out next counts from here.
                volume.lastProbe = monotonicSeconds()
            }
        }
    }
}

extension Engine.State {
    /// The other volumes with the same server that meet a condition.
    fileprivate func neighbours(of id: String, where condition: (Volume) -> Bool) -> [String] {
        guard let server = volumes[id]?.session.description.server else { return [] }
        return volumes.filter { $0.key != id && condition($0.value) && $0.value.session.description.server == server }
            .map(\.key).sorted()
    }

    /// Those of them that wait for the server.
    fileprivate func waitingNeighbours(of id: String, where condition: (Volume) -> Bool) -> [String] {
        neighbours(of: id) { !$0.facts.isOpen && $0.outage != nil && condition($0) }
    }

    /// Whether the server of a volume fails whoever asks.
    fileprivate func isFailing(_ id: String) -> Bool {
        guard let server = volumes[id]?.session.description.server else { return false }
        return failingServers[server]?.areEnough(monotonicSeconds()) ?? false
    }

    /// The server of a volume has failed; true where it fails whoever asks.
    mutating func noteServerFailure(of id: String) -> Bool {
        guard let server = volumes[id]?.session.description.server else { return false }
        let now = monotonicSeconds()
        failingServers = failingServers.filter { now < $0.value.last + ServerFailures.memory }
        failingServers[server, default: ServerFailures()].count += 1
        failingServers[server]?.last = now
        return isFailing(id)
    }

    /// The server of a volume has answered well; true where it had failed before.
    fileprivate mutating func noteServerAnswer(of id: String) -> Bool {
        guard !failingServers.isEmpty, let server = volumes[id]?.session.description.server else { return false }
        return failingServers.removeValue(forKey: server) != nil
    }

    /// A volume's server is being asked: nobody else asks it meanwhile.
    mutating func beginProbe(of id: String) {
        guard let volume = volumes[id], let outage = volume.outage else { return }
        let others = waitingNeighbours(of: id) { other in
            // Who has met failures keeps its pauses, whatever one hears that has met none.
            other.outage == outage && other.probeAt != nil && (other.isHeldForOthers || !volume.isHeldForOthers)
        }
        for other in others {
            volumes[other]?.probeAt = nil
            volumes[other]?.askedBy = id
            volumes[other]?.lastProbe = monotonicSeconds()
        }
    }

    /// Nobody is asked for by a volume any more; who knows nothing of its answer asks by itself.
    mutating func endProbe(of id: String) {
        let now = monotonicSeconds()
        for (other, volume) in volumes where volume.askedBy == id {
            volumes[other]?.askedBy = nil
            if !volume.facts.isOpen, volume.probeAt == nil { volumes[other]?.probeSoon(now) }
        }
    }

    /// What is wrong with a server is so for those that wait for it already; the next question is one for all of them, but
    /// who wants to ask sooner does.
    fileprivate mutating func spread(_ outage: ServerOutage, from id: String) {
        guard let volume = volumes[id], let next = volume.probeAt, !volume.facts.isOpen else { return }
        let others = waitingNeighbours(of: id) { other in
            // One that takes no connection fails nobody any more.
            guard other.outage == outage || outage == .noConnection else { return false }
            return !other.isProbing && other.askedBy.map { $0 == id } ?? true
        }
        let probes = others.compactMap { volumes[$0]?.probes }.reduce(volume.probes, max)
        volumes[id]?.probes = probes
        for other in others {
            let own = volumes[other]?.probeAt
            volumes[other]?.outage = outage
            if outage == .noConnection { volumes[other]?.isHeldForOthers = false }
            volumes[other]?.probes = probes
            volumes[other]?.probeAt = min(own ?? next, next)
        }
    }
}

extension StoreError {
    /// What it says of the server for others than who met it; nil: nothing, or nothing yet.
    var outage: ServerOutage? {
        switch cause {
        case .unreachable where code == StoreError.notSent: .noConnection
        // Less than 500 it says to who asks: that it is too much, or too early.
        case .temporary where status.map { $0 >= 500 } ?? true: .failing
        default: nil
        }
    }
}
