// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform

/// How new connections are received.
package enum ConnectionMode: String, Sendable {
    /// Relayed.
    case pass
    /// Not accepted: connecting is refused.
    case refuse
    /// Accepted and reset at once.
    case reset
    /// Accepted, and nothing is ever relayed, not on live connections either.
    case blackhole
}

/// The proxy's faults and counters, shared by its connections and its control.
package final class FaultPlan: Sendable {
    struct ActiveRule: Sendable {
        let id: Int
        let rule: FaultRule
        var seen = 0
        var matched = 0
        /// Exchanges that were or are held, before their request or before their response.
        var held = 0
        /// Requests that are here wholly, to be delivered later.
        var detained = 0
        var isReleased = false

        /// How many exchanges the rule has done something to; a response is there before it is held.
        var acted: Int { rule.action == .holdResponse ? held : matched }
    }

    struct State: Sendable {
        var rules: [ActiveRule] = []
        var nextID = 1
        var mode = ConnectionMode.pass
        var latency = 0
        var totalCuts: [TotalCut] = []
        var forwarded: [Direction: Int64] = [:]
        var cutsDone = 0
        var totals: [RequestKind: RequestTotals] = [:]
        var records: [RequestRecord] = []
        var connections = 0
    }

    struct TotalCut: Sendable {
        var offset: Int64
        var direction: Direction
        var style: CutStyle
        var cutsEveryConnection: Bool
    }

    let state = Monitor(State())
    let upload = TokenBucket()
    let download = TokenBucket()
    static let recordLimit = 50_000

    package init() {}

    // MARK: faults

    /// Adds a rule and returns its id.
    ///
    /// The first rule that matches a request is the one that acts on it.
    @discardableResult
    package func add(_ rule: FaultRule) -> Int {
        state.update { state in
            let id = state.nextID
            state.nextID += 1
            state.rules.append(ActiveRule(id: id, rule: rule))
            return id
        }
    }

    /// Removes a rule, and lets go what it holds.
    package func remove(_ id: Int) {
        state.update { state in state.rules.removeAll { $0.id == id } }
    }

    /// Lets go what a rule holds or will hold; the rule stays for counting.
    package func release(_ id: Int) {
        state.update { state in
            for index in state.rules.indices where state.rules[index].id == id { state.rules[index].isReleased = true }
        }
    }

    /// Waits until a rule has acted on `count` requests; returns how many it acted on.
    package func waitForMatches(of id: Int, count: Int, timeout: Double) -> Int {
        let result = state.wait(timeout: timeout) { state in
            state.rules.first { $0.id == id }.map(\.acted).flatMap { $0 >= count ? $0 : nil }
        }
        return result ?? state.inspect { state in state.rules.first { $0.id == id }?.acted ?? 0 }
    }

    /// Waits until a rule has detained `count` whole requests; returns how many it detained.
    package func waitForDetained(by id: Int, count: Int, timeout: Double) -> Int {
        let result = state.wait(timeout: timeout) { state in
            state.rules.first { $0.id == id }.map(\.detained).flatMap { $0 >= count ? $0 : nil }
        }
        return result ?? state.inspect { state in state.rules.first { $0.id == id }?.detained ?? 0 }
    }

    /// Removes all rules, limits and planned cuts, and passes connections again.
    ///
    /// Counters stay.
    package func clear() {
        state.update { state in
            state.rules = []
            state.latency = 0
            state.totalCuts = []
            state.mode = .pass
        }
        upload.setRate(nil)
        download.setRate(nil)
    }

    /// Sets the rates in bytes a second (nil: no limit) and the delay before each request, in milliseconds.
    package func limit(upload up: Int?, download down: Int?, latency: Int) {
        upload.setRate(up)
        download.setRate(down)
        state.update { $0.latency = latency }
    }

    /// Changes how connections are received; live ones go on, except that ``ConnectionMode/blackhole`` stops them.
    package func setMode(_ mode: ConnectionMode) {
        state.update { $0.mode = mode }
    }

    /// Cuts when the content of all requests or responses together, since the last ``zero()``, reaches each offset.
    package func cut(
        atTotals offsets: [Int64],
        of direction: Direction,
        _ style: CutStyle = .reset,
        everyConnection: Bool = false
    ) {
        state.update { state in
            state.totalCuts += offsets.map {
                TotalCut(offset: $0, direction: direction, style: style, cutsEveryConnection: everyConnection)
            }
        }
    }

    // MARK: counters

    /// Forgets all counts and records.
    package func zero() {
        state.update { state in
            state.totals = [:]
            state.records = []
            state.forwarded = [:]
            state.cutsDone = 0
        }
    }

    /// The sums by kind of request.
    package var totals: [RequestKind: RequestTotals] { state.inspect { $0.totals } }

    /// The finished requests, oldest first, at most 50,000.
    package var records: [RequestRecord] { state.inspect { $0.records } }

    /// The content bytes that clients sent, over all requests.
    package var requestBytes: Int64 { state.inspect { $0.totals.values.reduce(0) { $0 + $1.requestBytes } } }

    /// How many cuts at totals were done.
    package var cutsDone: Int { state.inspect { $0.cutsDone } }
}
