// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Policy

/// The rules that the rows of a volume go by: its own, and those of the paths that some are set for.
///
/// Rows know theirs by number, which stays what it is for as long as the patterns do.
struct RuleTable: Sendable {
    private let own: UploadConditions
    private let patterns: [(pattern: PathPattern, values: OptionValues)]
    /// For each number the patterns whose settings count, the strongest last; number 0 has none.
    private var sets: [[Int]] = [[]]
    private var numbers: [[Int]: Int] = [[]: 0]
    private var overrides = OptionValues()
    private(set) var conditions: [UploadConditions]
    private(set) var rules: [TransferRules]

    init(_ description: VolumeDescription, overrides: OptionValues) {
        own = description.conditions ?? UploadConditions()
        self.overrides = overrides
        // The longer a pattern, the more special it is taken to be; of two as long the later one counts.
        patterns = (description.paths ?? []).enumerated().compactMap { index, path in
            PathPattern(path.pattern).map { (index, $0, path.values) }
        }
        .sorted { ($0.1.text.utf8.count, $0.0) < ($1.1.text.utf8.count, $1.0) }
        .map { ($0.1, $0.2) }
        conditions = [own.overridden(by: overrides)]
        rules = [TransferRules(conditions[0])]
    }

    /// Takes in what a person set.
    mutating func override(by overrides: OptionValues) {
        self.overrides = overrides
        conditions = sets.map(conditions(of:))
        rules = conditions.map { TransferRules($0) }
    }

    /// The number of the rules for a path; rules that were not met before get a new one.
    mutating func number(for path: ObjectKey) -> Int {
        guard !patterns.isEmpty else { return 0 }
        let set = patterns.indices.filter { patterns[$0].pattern.matches(path.bytes) }
        if let number = numbers[set] { return number }
        // A bound that only hundreds of patterns in many combinations reach.
        guard sets.count < Self.limit else { return 0 }
        sets.append(set)
        numbers[set] = sets.count - 1
        conditions.append(conditions(of: set))
        rules.append(TransferRules(conditions[conditions.count - 1]))
        return sets.count - 1
    }

    /// The same for another description of the volume that has the same patterns.
    func with(_ description: VolumeDescription) -> RuleTable {
        var table = RuleTable(description, overrides: overrides)
        table.sets = sets
        table.numbers = numbers
        table.override(by: overrides)
        return table
    }

    /// Whether a description has the same patterns, so that numbers mean the same.
    func hasPatterns(of other: RuleTable) -> Bool { patterns.map(\.pattern) == other.patterns.map(\.pattern) }

    /// Whether anything depends on the time.
    var isTimed: Bool { rules.contains { $0.windows != nil } }

    /// Whether anything is put off while there is room for it.
    var mayDefer: Bool { rules.contains { $0.isDiscretionary || $0.discretionarySize != nil } }

    /// The patterns that have made rules of a number, for people; nil: those of the volume.
    func name(of number: Int) -> String? {
        guard sets.indices.contains(number), let last = sets[number].last else { return nil }
        return patterns[last].pattern.text
    }

    private static let limit = 1000

    private func conditions(of set: [Int]) -> UploadConditions {
        let special = set.reduce(OptionValues()) { $0.overridden(by: patterns[$1].values) }
        return own.overridden(by: special).overridden(by: overrides)
    }
}

extension TransferRules {
    init(_ conditions: UploadConditions) {
        self.init(
            allowsExpensive: conditions.allowExpensive,
            allowsConstrained: conditions.allowConstrained,
            allowsCellular: conditions.allowCellular,
            allowsPowerSaver: conditions.allowPowerSaver,
            isDiscretionary: conditions.discretionary,
            discretionarySize: conditions.discretionaryAbove,
            requiresPower: conditions.requirePower,
            minimumCharge: conditions.batteryMinimum,
            windows: conditions.window.flatMap { TransferWindows(parsing: $0) },
            notBefore: conditions.notBefore.flatMap { TimeRule(parsing: $0) },
            deadline: conditions.deadline.flatMap { TimeRule(parsing: $0) },
            priority: conditions.priority
        )
    }
}
