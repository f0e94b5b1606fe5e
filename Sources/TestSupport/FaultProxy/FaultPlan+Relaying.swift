// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc
internal import Platform

/// The rule that acts on an exchange.
struct ChosenFault: Sendable {
    let ruleID: Int
    let action: FaultAction
}

/// What the connections ask.
extension FaultPlan {
    /// Counts a request and chooses what is done to it.
    func admit(_ head: MessageHead) -> ChosenFault? {
        state.update { state in
            state.totals[RequestKind(head), default: .init()].requests += 1
            for index in state.rules.indices where state.rules[index].rule.pattern.matches(head) {
                let rule = state.rules[index].rule
                state.rules[index].seen += 1
                let turn = state.rules[index].seen - rule.skip
                guard turn > 0, turn <= rule.times ?? .max else { continue }
                state.rules[index].matched += 1
                return ChosenFault(ruleID: state.rules[index].id, action: rule.action)
            }
            return nil
        }
    }

    /// Counts content bytes as they are read.
    func count(_ kind: RequestKind, _ direction: Direction, _ bytes: Int64) {
        guard bytes > 0 else { return }
        state.inspect { state in
            switch direction {
            case .request: state.totals[kind, default: .init()].requestBytes += bytes
            case .response: state.totals[kind, default: .init()].responseBytes += bytes
            }
        }
    }

    /// Keeps what became of a request.
    func record(_ record: RequestRecord) {
        state.update { state in
            if state.records.count < Self.recordLimit { state.records.append(record) }
        }
    }

    /// How many of `count` content bytes may pass before a planned cut, and that cut when it is due.
    func passage(of count: Int64, _ direction: Direction) -> (count: Int64, cut: TotalCut?) {
        state.update { state in
            let before = state.forwarded[direction, default: 0]
            let due = state.totalCuts.indices.filter { index in
                state.totalCuts[index].direction == direction && state.totalCuts[index].offset <= before + count
            }
            guard let first = due.min(by: { state.totalCuts[$0].offset < state.totalCuts[$1].offset }) else {
                state.forwarded[direction] = before + count
                return (count, nil)
            }
            let cut = state.totalCuts.remove(at: first)
            let allowed = max(0, cut.offset - before)
            state.forwarded[direction] = before + allowed
            state.cutsDone += 1
            return (allowed, cut)
        }
    }

    /// Counts a request that a rule keeps for later.
    func detained(by id: Int) {
        state.update { state in
            for index in state.rules.indices where state.rules[index].id == id { state.rules[index].detained += 1 }
        }
    }

    /// Waits while a rule holds its exchange, or until `isEnded`.
    func waitForRelease(of id: Int, isEnded: () -> Bool) {
        state.update { state in
            for index in state.rules.indices where state.rules[index].id == id { state.rules[index].held += 1 }
        }
        while !isEnded() {
            let isFree = state.wait(timeout: 0.05) { state -> Bool? in
                guard let rule = state.rules.first(where: { $0.id == id }) else { return true }
                return rule.isReleased ? true : nil
            }
            if isFree == true { return }
        }
    }

    /// Waits while nothing is relayed at all, or until `isEnded`.
    func waitWhileBlackholed(isEnded: () -> Bool) {
        while !isEnded() {
            let isOpen = state.wait(timeout: 0.05) { $0.mode == .blackhole ? nil : true }
            if isOpen == true { return }
        }
    }

    /// Waits for the planned latency.
    func delay(milliseconds: Int? = nil, isEnded: () -> Bool) {
        var left = milliseconds ?? state.inspect { $0.latency }
        while left > 0, !isEnded() {
            usleep(UInt32(min(left, 50)) * 1_000)
            left -= 50
        }
    }
}
