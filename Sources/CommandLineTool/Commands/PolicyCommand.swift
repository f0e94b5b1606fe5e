// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration
internal import Control

/// `moorage policy`: what is known of the machine, the rules that hold, and what they forbid now.
enum PolicyCommand {
    static let definition = CommandDefinition(
        name: "policy",
        operands: "[show] | set KEY=VALUE ... | unset [KEY ...]",
        operandCount: 0...100,
        flags: [
            FlagDefinition("json", nil, "print one JSON document"),
            FlagDefinition("for", "TIME", "set only for this long, such as 30m or 2h"),
        ],
        summary: "show and set the rules for uploads that hold now",
        details: """
            show    what is known of network and power, what holds uploads now, and every setting
            set     until it is unset, in place of what is observed and of the settings, for all volumes:
              metered=yes|no|auto    whether the network costs by what is sent
              low-data=on|off|auto   whether little is to be sent
              KEY=VALUE              allow_expensive, allow_constrained, allow_cellular, allow_power_saver,
                                     discretionary, discretionary_above, require_power, battery_min, window,
                                     not_before, deadline, priority, lifetime, retry_base, retry_cap,
                                     connect_timeout, stall_timeout, expensive_daily, expensive_monthly,
                                     rate_limit, max_rate, max_download_rate, yield, low_effort
            unset   the same keys, or all of them

            Docs/BackgroundTransfers.md tells what each condition means and where it is learned from.
            """
    ) { arguments throws(CommandFailure) in
        let verb = arguments.operands.first ?? "show"
        let words = Array(arguments.operands.dropFirst())
        guard verb == "set" || !arguments.has("for") else { throw .usage("policy \(verb): --for goes with set") }
        switch verb {
        case "show": return try show(words, json: arguments.has("json"))
        case "set": return try set(words, seconds: try arguments.seconds("for"), json: arguments.has("json"))
        case "unset": return try change(.unsetPolicy(keys: words), json: arguments.has("json"))
        default: throw .usage("policy: unknown verb \(verb): use show, set or unset")
        }
    }

    private static func show(_ words: [String], json: Bool) throws(CommandFailure) -> Int32 {
        guard words.isEmpty else {
            throw .usage("policy: unexpected operand \(words[0]): usage: moorage policy [show]")
        }
        let instance = try Instance.current()
        let report = try ask(.policy, instance)
        guard !json else {
            Console.bytes(try document(report))
            return 0
        }
        for line in PolicyText.lines(report) { Console.line(line) }
        Console.line("settings for all volumes ([policy] of \(instance.directories.configuration)):")
        showSettings(instance.configuration.policy, [.policy, .flusher])
        for volume in instance.configuration.volumes {
            Console.line("settings of volume \(volume.name) (\(volume.remote)):")
            showSettings(instance.configuration.policy.overridden(by: volume.values), [.policy])
        }
        for path in instance.configuration.paths {
            Console.line("settings of paths \(path.volume):\(path.conditions.pattern):")
            for line in columns(path.conditions.settings.sorted { $0.key < $1.key }.map { ["  \($0)", $1] }) {
                Console.line(line)
            }
        }
        return 0
    }

    private static func set(_ words: [String], seconds: Double?, json: Bool) throws(CommandFailure) -> Int32 {
        guard !words.isEmpty else { throw .usage("policy set: name a KEY=VALUE, such as metered=yes") }
        guard seconds.map({ $0 >= 1 }) ?? true else { throw .usage("policy set: --for takes one second or more") }
        var changes: [PolicyChange] = []
        for word in words {
            guard let equals = word.firstIndex(of: "=") else {
                throw .usage("policy set: \(word): write KEY=VALUE, such as metered=yes")
            }
            let value = String(word[word.index(after: equals)...])
            changes.append(PolicyChange(key: String(word[..<equals]), value: value))
        }
        return try change(.setPolicy(changes: changes, seconds: seconds), json: json)
    }

    private static func change(_ request: ControlRequest, json: Bool) throws(CommandFailure) -> Int32 {
        let report = try ask(request, try Instance.current())
        guard !json else {
            Console.bytes(try document(report))
            return 0
        }
        for line in PolicyText.changes(report) { Console.line(line) }
        return 0
    }

    private static func ask(_ request: ControlRequest, _ instance: Instance) throws(CommandFailure) -> PolicyReport {
        switch try instance.connect().ask(request) {
        case .policy(let report): return report
        case .failed("unknown request"):
            throw CommandFailure("policy: the flusher that runs is of an earlier version; it ends when it has sent all")
        case .failed(let reason): throw CommandFailure(reason)
        default: throw .unexpectedReply
        }
    }

    private static func showSettings(_ values: OptionValues, _ scopes: Set<OptionScope>) {
        let rows = OptionName.allCases.map(\.definition).filter { scopes.contains($0.scope) }.map { definition in
            ["  \(definition.name.rawValue)", values.effective(definition.name)?.text(definition.kind) ?? "automatic"]
        }
        for line in columns(rows) { Console.line(line) }
    }
}

extension OptionValue {
    /// The value as the configuration file has it.
    func text(_ kind: OptionKind) -> String {
        switch self {
        case .flag(let value): value ? "true" : "false"
        case .text(let text): text
        case .seconds(let seconds): secondText(seconds)
        case .number(let number):
            switch kind {
            case .bytes: byteText(number)
            case .octal: "0" + String(number, radix: 8)
            default: String(number)
            }
        }
    }
}
