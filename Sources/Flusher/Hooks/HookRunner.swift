// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Platform

/// Runs the user's programs, at most one at a time, each for a bounded time; what goes wrong is logged and stops nothing.
final class HookRunner: Sendable {
    private struct State {
        var waiting: [Hook] = []
        var isStopped = false
    }

    /// How many wait for their turn; of more only the first ones are told.
    private static let limit = 64

    private let options: WatchingOptions
    private let environment: [String: String]
    private let state = Monitor(State())
    /// Held while a program runs.
    private let running = Lock<Void>(())

    init(_ options: WatchingOptions, environment: [String: String]) {
        self.options = options
        self.environment = environment
    }

    var asksBeforeStart: Bool { !options.beforeStart.isEmpty }

    func start() throws(SystemError) {
        guard !options.onIdle.isEmpty || !options.onAttention.isEmpty else { return }
        try Thread.detached(name: "hooks", stackSize: 256 << 10) { self.work() }
    }

    func stop() { state.update { $0.isStopped = true } }

    /// Runs the program for this later, if there is one; the same that waits already is run once.
    func run(_ hook: Hook) {
        guard !program(for: hook).isEmpty else { return }
        let isKept = state.update { state in
            if state.waiting.contains(hook) { return true }
            guard state.waiting.count < Self.limit else { return false }
            state.waiting.append(hook)
            return true
        }
        if !isKept { Log.warning("hooks", "\(Self.limit) programs wait already: one is not run") }
    }

    /// Asks the program before an upload begins; blocks.
    ///
    /// What is no answer lets it begin.
    func ask(_ hook: Hook) -> StartAnswer {
        let outcome = perform(hook)
        guard case .exited(let status, let output) = outcome else { return .start }
        if let answer = StartAnswer(status: status, output: output, now: .now()) { return answer }
        Log.warning("hooks", "before_start ended with \(status), which is no answer: the upload begins")
        return .start
    }

    private func program(for hook: Hook) -> [String] {
        switch hook {
        case .idle: options.onIdle
        case .attention: options.onAttention
        case .beforeStart: options.beforeStart
        }
    }

    private func work() {
        while let next = state.wait(until: Self.next), let hook = next {
            let outcome = perform(hook)
            if case .exited(let status, _) = outcome, status != 0 {
                Log.warning("hooks", "\(program(for: hook)[0]) ended with \(status)")
            }
        }
    }

    /// The next to run; nil to wait, the inner nil at the end.
    private static func next(_ state: inout State) -> Hook?? {
        if state.isStopped { return .some(nil) }
        return state.waiting.isEmpty ? nil : .some(state.waiting.removeFirst())
    }

    private func perform(_ hook: Hook) -> BoundedProgram.Outcome {
        let words = program(for: hook)
        let outcome = running.withLock { _ in
            BoundedProgram.run(words, environment: hook.environment(of: environment), timeout: options.hookTimeout)
        }
        switch outcome {
        case .exited: break
        case .killed(let signal): Log.warning("hooks", "\(words[0]) was killed by signal \(signal)")
        case .timedOut:
            Log.warning("hooks", "\(words[0]) took longer than \(Int(options.hookTimeout)) s and was killed")
        case .notStarted(let reason): Log.warning("hooks", reason)
        }
        return outcome
    }
}
