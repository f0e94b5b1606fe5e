// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import ObjectStore
internal import Platform
internal import Policy

/// Volumes with the same server: whether it can be reached at all one of them finds out for all.
extension Engine {
    /// The server of a volume takes no connection: the others on it need not find that out, one request each.
    ///
    /// Those whose requests are under way find out by themselves: theirs may have a connection that lasts.
    func shareLoss(of id: String, _ error: StoreError) {
        guard error.meansNoConnection else { return }
        let others = state.inspect { state in
            let busy = Set(state.jobs.keys.map(\.volume))
            return state.neighbours(of: id) { $0.facts.isOpen && !busy.contains($0.session.id) }
        }
        for other in others {
            observe(other) { volume, now in
                volume.facts.lose(error, source: "another volume of the server", at: now)
                volume.trouble = error.message
                volume.isUnreachable = true
            }
        }
        state.inspect { $0.alignProbes(with: id) }
    }

    /// A question to the server of a volume was not answered, or the volume's keys keep it from being asked.
    func noteUnanswered(_ id: String, _ error: StoreError) {
        state.inspect { $0.endProbe(of: id, isLost: error.meansNoConnection) }
    }

    /// The server of a volume has answered: the others that wait for a connection to it go on.
    func shareAnswer(of id: String) {
        let others = state.inspect { state in
            state.volumes[id]?.isUnreachable = false
            for other in state.neighbours(of: id, { $0.isAskedFor }) { state.volumes[other]?.isAskedFor = false }
            return state.neighbours(of: id) { $0.isUnreachable }
        }
        for other in others {
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
    fileprivate func neighbours(of id: String, _ condition: (Volume) -> Bool) -> [String] {
        guard let server = volumes[id]?.session.description.server else { return [] }
        return volumes.filter { $0.key != id && $0.value.session.description.server == server && condition($0.value) }
            .map(\.key).sorted()
    }

    /// A volume's server is being asked: nobody else asks it meanwhile.
    mutating func beginProbe(of id: String) {
        guard volumes[id]?.isUnreachable == true else { return }
        for other in neighbours(of: id, { $0.isUnreachable && $0.probeAt != nil }) {
            volumes[other]?.probeAt = nil
            volumes[other]?.isAskedFor = true
            volumes[other]?.lastProbe = monotonicSeconds()
        }
    }

    /// It has been asked, and takes no connection still (`isLost`), or this says nothing of the server.
    fileprivate mutating func endProbe(of id: String, isLost: Bool) {
        let now = monotonicSeconds()
        for other in neighbours(of: id, { $0.isAskedFor }) {
            volumes[other]?.isAskedFor = false
            if !isLost, volumes[other]?.facts.isOpen == false { volumes[other]?.probeSoon(now) }
        }
        volumes[id]?.isUnreachable = isLost
        if isLost { alignProbes(with: id) }
    }

    /// The next question is one for all that wait for a server.
    fileprivate mutating func alignProbes(with id: String) {
        guard let volume = volumes[id], volume.isUnreachable, let next = volume.probeAt else { return }
        for other in neighbours(of: id, { $0.isUnreachable && !$0.isProbing && !$0.isAskedFor }) {
            volumes[other]?.probes = volume.probes
            volumes[other]?.probeAt = next
        }
    }
}

extension StoreError {
    /// Whether no connection came about, so that no other request to the server has a chance now.
    var meansNoConnection: Bool { cause == .unreachable && code == StoreError.notSent }
}
