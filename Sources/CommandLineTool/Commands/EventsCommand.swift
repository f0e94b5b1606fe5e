// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Control
internal import Platform

/// `moorage events`: what happens to uploads, as it happens.
enum EventsCommand {
    static let definition = CommandDefinition(
        name: "events",
        operands: "",
        operandCount: 0...0,
        flags: [
            FlagDefinition("json", nil, "print one JSON document a line"),
            FlagDefinition("volume", "REMOTE|PATH", "only what concerns this volume; may be given several times"),
        ],
        summary: "print what happens to uploads, as it happens, until interrupted",
        details: """
            queued, started, resumed, restarted, progress, waiting, finished, failed, attention and conflict tell of one
            upload; gate and idle of a volume; flusher that one is there, stops or is gone; missed how many events were
            dropped because this reader was slower than they came. Docs/Watching.md has the members of each.
            No flusher is started; when there is none, the next one is waited for.
            """
    ) { arguments throws(CommandFailure) in
        let instance = try Instance.current()
        let volumes = try volumes(arguments.values("volume"), instance)
        let isJSON = arguments.has("json")
        let isOver = Monitor(false)
        let watcher = try FlusherWatcher(instance.launcher, volumes: volumes) { happening in
            if let event = event(happening) { show(event, json: isJSON) }
            if Console.isAbandoned { isOver.update { $0 = true } }
        }
        while isOver.wait(timeout: 1, until: { $0 || Console.isAbandoned ? true : nil }) == nil {}
        withExtendedLifetime(watcher) {}
        return 0
    }

    /// The ids of the volumes that are named, none for all.
    private static func volumes(_ names: [String], _ instance: Instance) throws(CommandFailure) -> [String] {
        guard !names.isEmpty else { return [] }
        let resolver = SelectionResolver(instance)
        var result: [String] = []
        for name in names {
            guard let found = try resolver.resolve(name) else {
                throw CommandFailure("events: \(name): not in a volume that was mounted here; see moorage status")
            }
            result += found.volumes
        }
        return result
    }

    private static func event(_ happening: FlusherWatcher.Happening) -> TransferEvent? {
        switch happening {
        case .event(let event): return event
        case .change: return nil
        case .connected(let pid):
            var event = TransferEvent(.flusher, at: Timestamp.now().rfc3339)
            event.state = "running"
            event.pid = pid
            return event
        case .gone:
            var event = TransferEvent(.flusher, at: Timestamp.now().rfc3339)
            event.state = "gone"
            return event
        }
    }

    private static func show(_ event: TransferEvent, json: Bool) {
        guard json else { return Console.line(Console.oneLine(text(event))) }
        guard let line = try? JSON.encode(event) else { return }
        Console.bytes(line + [0x0A])
    }

    /// A line for people.
    static func text(_ event: TransferEvent) -> String {
        var parts = [event.time, event.event.rawValue]
        if let path = event.path { parts.append(path) } else if let volume = event.volume { parts.append(volume) }
        if let state = event.state { parts.append(state) }
        if let offset = event.offset { parts.append("at \(humanBytes(offset))") }
        if let sent = event.sent, let size = event.size { parts.append("\(humanBytes(sent)) of \(humanBytes(size))") }
        if let rate = event.bytesPerSecond { parts.append("\(humanBytes(rate))/s") }
        if let waiting = event.waiting, !waiting.isEmpty {
            parts.append(
                waiting.map { wait in wait.reason + (wait.until.map { " until \($0)" } ?? "") }.joined(separator: ", ")
            )
        }
        if let copy = event.copy { parts.append("ours is \(copy)") }
        if let error = event.error { parts.append(error) }
        if let next = event.nextAttempt { parts.append("next at \(next)") }
        if let count = event.count { parts.append("\(count)") }
        return parts.joined(separator: "  ")
    }
}
