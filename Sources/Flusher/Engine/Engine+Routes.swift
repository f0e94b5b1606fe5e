// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Conditions
internal import Configuration
internal import Platform
internal import Policy

/// Which network each remote is reached through: not all of them are behind the usual way.
extension Engine {
    /// Names are looked up again after this time, in seconds: they may lead elsewhere by then.
    private static let namePause = 300.0
    /// The kernel is not asked for routes more often than this, in seconds, however often they change.
    private static let shortestPause = 1.0
    /// When names that nobody knows are looked up again, in seconds.
    private static let namelessPause = 10.0

    /// Finds out where the routes lead, when there are new volumes, when routes have changed, and now and then.
    ///
    /// On a thread of its own, as names are looked up.
    func watchRoutes() {
        var addresses: [String: [String]] = [:]
        while !isStopping {
            let due: (names: Bool, hosts: [String: String])? = state.wait(timeout: 60) { state in
                let now = monotonicSeconds()
                guard !state.isStopping, state.routes.dueAt <= now else { return state.isStopping ? (false, [:]) : nil }
                let isOld = state.routes.namesDueAt <= now
                if isOld { state.routes.namesDueAt = now + Self.namePause }
                state.routes.dueAt = now + Self.namePause
                state.routes.askedAt = now
                return (isOld, state.volumes.compactMapValues(\.session.description.host))
            }
            guard let due, !isStopping else { continue }
            let hosts = Set(due.hosts.values)
            addresses = addresses.filter { hosts.contains($0.key) }
            for host in hosts where due.names || addresses[host] == nil {
                let found = RemoteRoute.addresses(of: host)
                // Where nobody knows the name now it leads where it led before.
                if !found.isEmpty || addresses[host] == nil { addresses[host] = found }
                if found.isEmpty { askAgain() }
            }
            take(due.hosts.mapValues { RemoteRoute.interfaces(to: addresses[$0] ?? []) })
        }
    }

    /// The routes are to be looked at soon; `isNamed`: what names lead to as well.
    func noteOtherRoutes(isNamed: Bool = true) {
        state.update { state in
            state.routes.dueAt = min(state.routes.dueAt, state.routes.askedAt + Self.shortestPause)
            if isNamed { state.routes.namesDueAt = 0 }
        }
    }

    /// A name could not be looked up, as when the network has only just come.
    private func askAgain() {
        state.inspect { state in
            state.routes.namesDueAt = min(state.routes.namesDueAt, state.routes.askedAt + Self.namelessPause)
            state.routes.dueAt = min(state.routes.dueAt, state.routes.askedAt + Self.namelessPause)
        }
    }

    private func take(_ ways: [String: [String]]) {
        let (isNews, hasMoved) = state.inspect { state in
            var (isNews, hasMoved) = (false, false)
            for (id, ways) in ways {
                guard let old = state.volumes[id] else { continue }
                // Of several ways it stays on the one that it had: the order of addresses may change each time.
                let interface = old.interface.flatMap { ways.contains($0) ? $0 : nil } ?? ways.first
                guard old.interface != interface else { continue }
                state.noteSent()
                state.volumes[id]?.interface = interface
                if old.interface != nil {
                    let network = state.policy.network(of: old)
                    let settlingTime = ConditionState.settlingTime
                    state.volumes[id]?.departed = DepartedNetwork(
                        network,
                        at: monotonicSeconds(),
                        settlingTime: settlingTime
                    )
                }
                isNews = true
                if old.interface != nil, interface != nil { hasMoved = true }
            }
            return (isNews, hasMoved)
        }
        options.conditions?.watch(state.inspect { Set($0.volumes.values.compactMap(\.interface)) })
        if isNews { applyPolicy() }
        // Connections that stayed on the other way would go on there.
        if hasMoved { noteNetworkChange(isNamed: false) }
    }
}

/// When the routes to the remotes are looked at, in monotonic seconds.
struct RouteTimes {
    var dueAt: Double = 0
    var askedAt = -Double.infinity
    var namesDueAt: Double = 0
}

extension VolumeDescription {
    /// The host that connections go to; nil where a proxy stands between, or the service has many.
    fileprivate var host: String? {
        let isSecure = !(url ?? endpoint ?? "https").hasPrefix("http://")
        // libcurl reads the one for plain HTTP in small letters only.
        let names = (isSecure ? ["https_proxy", "HTTPS_PROXY"] : ["http_proxy"]) + ["all_proxy", "ALL_PROXY"]
        guard names.allSatisfy({ (ProcessEnvironment.value($0) ?? "").isEmpty }) else { return nil }
        guard url != nil || endpoint != nil else {
            return region.map { "s3.\($0).amazonaws.com" } ?? "s3.amazonaws.com"
        }
        return authorityHost
    }
}
