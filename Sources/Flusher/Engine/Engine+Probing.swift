// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import ObjectStore
internal import Platform
internal import Policy

extension Engine {
    /// How many requests a probe is at most: a second one is for a server that was just restarting.
    private static let attemptsOfProbe = 2

    /// Asks remotes that did not answer, one small request each, with growing pauses up to half a minute.
    func probe() {
        while !isStopping {
            let due: String? = state.wait(timeout: 1) { state in
                if state.isStopping { return "" }
                let now = monotonicSeconds()
                // In turn: of several volumes on a server one asks for all, with the bucket of each in the end, and with
                // those first that may have nothing to do with it.
                return state.volumes.filter { $0.value.probeAt.map { $0 <= now } ?? false }
                    .min { $0.value.turn($0.key) < $1.value.turn($1.key) }?.key
            }
            guard let id = due, !id.isEmpty else { continue }
            probe(id)
        }
    }

    /// The machine's network is another one: what did not answer is asked anew, and what stands still is given up.
    ///
    /// `isNamed`: names may lead elsewhere.
    func noteNetworkChange(isNamed: Bool = true) {
        Log.info("flusher", "the network has changed")
        options.renewConnections()
        if isNamed { noteOtherRoutes() }
        state.update { state in
            let now = monotonicSeconds()
            for id in Array(state.volumes.keys) where state.volumes[id]?.facts.isOpen == false {
                state.volumes[id]?.probes = 0
                state.volumes[id]?.probeSoon(now)
            }
        }
    }

    /// Asks remotes with something to send that NetworkManager says a login is wanted for: its guess alone, by a page of
    /// its own, holds nothing that answers.
    func askBehindPortals() {
        state.update { state in
            let now = monotonicSeconds()
            for (id, volume) in state.volumes where !state.scheduler.isEmpty(of: id) {
                guard let hold = volume.portalHold, !volume.hasAnswered(since: hold.since) else { continue }
                guard volume.facts.isOpen, volume.probeAt == nil, !volume.isProbing else { continue }
                state.volumes[id]?.probeSoon(now)
            }
        }
    }

    private func probe(_ id: String) {
        var outage: ServerOutage?
        var isForAll = true
        let claimed: (session: VolumeSession, credentials: HandedCredentials?)? = state.inspect { state in
            guard var volume = state.volumes[id] else { return nil }
            outage = volume.outage
            isForAll = !volume.isHeldForOthers
            volume.probeAt = nil
            volume.isProbing = true
            volume.lastProbe = monotonicSeconds()
            volume.lastTurn = volume.lastProbe
            state.volumes[id] = volume
            state.beginProbe(of: id)
            return (volume.session, volume.handed)
        }
        guard let claimed else { return }
        let result = check(claimed.session, claimed.credentials)
        state.inspect { $0.volumes[id]?.isProbing = false }
        // Whatever became of this volume meanwhile, nobody waits for its answer after this.
        defer { state.inspect { $0.endProbe(of: id) } }
        guard let error = result else {
            observe(id) { volume, now in volume.succeeded(now) }
            shareAnswer(of: id, after: outage, isForAll: isForAll)
            return
        }
        observe(id) { volume, now in
            volume.trouble = error.message
            volume.probes += 1
            switch error.cause {
            case .authentication: volume.facts.authentication.observe(.refused, source: "probe", at: now)
            case .unreachable, .temporary: volume.facts.lose(error, source: "probe", at: now)
            default:
                // It answers, if only to say no: what it says to each row is the row's affair.
                volume.facts.connection.observe(.online, source: "probe", at: now)
                if volume.facts.isOpen { volume.answered() }
            }
            guard !volume.facts.isOpen else { return }
            let delay = Backoff.delay(afterFailures: volume.probes, longest: 30, random: .random(in: 0..<1))
            volume.probeAt = monotonicSeconds() + delay
        }
        switch error.cause {
        case .authentication, .unreachable, .temporary: noteUnanswered(id, error, after: outage)
        default: shareAnswer(of: id, after: outage, isForAll: isForAll)
        }
    }

    /// Asks a remote; nil when it answers well.
    private func check(_ session: VolumeSession, _ credentials: HandedCredentials?) -> StoreError? {
        let wasRefused = state.inspect { $0.volumes[session.id]?.facts.authentication.value == .refused }
        // Keys in files may have been renewed meanwhile.
        if session.store == nil || wasRefused { connect(session, credentials: credentials) }
        guard let store = session.store else { return StoreError(.authentication, "no credentials") }
        do throws(StoreError) {
            try store.check(attempts: Self.attemptsOfProbe)
            return nil
        } catch {
            return error
        }
    }

    /// Takes in credentials, and tries again what was refused without them.
    func take(_ credentials: HandedCredentials, for volume: String?) {
        let sessions = state.update { state in
            guard state.credentials[volume] != credentials else { return [VolumeSession]() }
            state.credentials[volume] = credentials
            var changed: [VolumeSession] = []
            for (id, entry) in state.volumes where volume == nil ? state.credentials[id] == nil : id == volume {
                state.volumes[id]?.handed = credentials
                changed.append(entry.session)
            }
            return changed
        }
        for session in sessions {
            connect(session, credentials: credentials)
            guard session.store != nil else { continue }
            observe(session.id) { volume, now in
                volume.facts.authentication.observe(.unknown, source: "credentials", at: now)
                volume.trouble = nil
            }
        }
    }
}

extension Volume {
    /// Who asks first: the least.
    fileprivate func turn(_ id: String) -> (Int, Double, String) { (isHeldForOthers ? 0 : 1, lastTurn, id) }

    /// What holds its uploads because the network is said to want a login.
    var portalHold: Waiting? { facts.holds.first { $0.reason == .captivePortal } }

    /// Whether the remote was reached after a time.
    func hasAnswered(since time: Timestamp) -> Bool { answeredAt.map { $0 > time } ?? false }
}
