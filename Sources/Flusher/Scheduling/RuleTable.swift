// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Policy

/// What bounds how much of some paths, or of a file, goes over networks that cost.
struct BudgetBound: Sendable {
    var owner: BudgetOwner
    /// What it is for, for people.
    var name: String
    /// None: what goes is counted, and bounded by what somebody set for now.
    var limits: ByteBudget.Limits
}

/// The rules that the rows of a volume go by: its own, those of the paths that some are set for, and those of single files.
///
/// Rows know theirs by number, which stays what it is for as long as the patterns do, and some row goes by it.
struct RuleTable: Sendable {
    /// What makes rules of their own.
    private struct Origin: Hashable {
        /// The patterns whose settings count, the strongest last.
        var patterns: [Int] = []
        /// What is set for the file, as the journal has it.
        var file: String?
    }

    private let volume: String
    private let own: UploadConditions
    private let patterns: [(pattern: PathPattern, values: OptionValues)]
    /// What each number is for; number 0 is the volume's.
    private var origins = [Origin()]
    private var numbers = [Origin(): 0]
    /// Numbers that no row goes by any more.
    private var free: Set<Int> = []
    /// Another one whenever a number stands for other rules than before.
    private(set) var revision = 0
    private var overrides = OptionValues()
    private(set) var conditions: [UploadConditions]
    private(set) var rules: [TransferRules]
    /// What bounds how much goes over networks that cost by the rules of each number, besides what bounds the volume.
    private(set) var bounds: [[BudgetBound]] = [[]]

    init(_ description: VolumeDescription, overrides: OptionValues) {
        var own = description.conditions ?? UploadConditions()
        // A description of an earlier version has them only there.
        own.connectTimeout = description.connectTimeout
        own.stallTimeout = description.stallTimeout
        self.own = own
        volume = description.id
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
        conditions = origins.map(conditions(of:))
        rules = zip(conditions, origins).map(Self.rules)
        bounds = origins.map(bounds(of:))
    }

    /// The number of the rules for a path, and for a file with settings of its own; new rules get a new one.
    mutating func number(for path: ObjectKey, settings: String? = nil) -> Int {
        guard !patterns.isEmpty || settings != nil else { return 0 }
        let met = patterns.indices.filter { patterns[$0].pattern.matches(path.bytes) }
        let origin = Origin(patterns: met, file: settings)
        if let number = numbers[origin] { return number }
        // A bound that only hundreds of patterns in many combinations reach.
        guard !free.isEmpty || origins.count < Self.limit else { return 0 }
        let number = free.popFirst() ?? add()
        origins[number] = origin
        numbers[origin] = number
        conditions[number] = conditions(of: origin)
        rules[number] = Self.rules(conditions[number], origin)
        bounds[number] = bounds(of: origin)
        revision += 1
        return number
    }

    /// Forgets rules that no row goes by.
    mutating func keep(only used: Set<Int>) {
        for number in origins.indices.dropFirst() where !used.contains(number) && !free.contains(number) {
            numbers[origins[number]] = nil
            origins[number] = Origin()
            conditions[number] = conditions[0]
            rules[number] = rules[0]
            bounds[number] = []
            free.insert(number)
            revision += 1
        }
    }

    /// Whether no row goes by a number any more.
    func isFree(_ number: Int) -> Bool { free.contains(number) }

    /// The numbers that rows go by besides the volume's: first those of paths, then those of single files.
    var special: [Int] {
        let used = origins.indices.dropFirst().filter { !free.contains($0) }
        return used.filter { origins[$0].file == nil } + used.filter { origins[$0].file != nil }
    }

    /// How many rules there are, those of no row included.
    var count: Int { origins.count }

    private mutating func add() -> Int {
        origins.append(Origin())
        conditions.append(conditions[0])
        rules.append(rules[0])
        bounds.append([])
        return origins.count - 1
    }

    /// The same for another description of the volume that has the same patterns.
    func with(_ description: VolumeDescription) -> RuleTable {
        var table = RuleTable(description, overrides: overrides)
        table.origins = origins
        table.numbers = numbers
        table.free = free
        table.revision = revision + 1
        table.override(by: overrides)
        return table
    }

    /// Whether a description has the same patterns, so that numbers mean the same.
    func hasPatterns(of other: RuleTable) -> Bool { patterns.map(\.pattern) == other.patterns.map(\.pattern) }

    /// Whether anything depends on the time.
    var isTimed: Bool { rules.contains { $0.windows != nil } }

    /// Whether anything is put off while there is room for it.
    var mayDefer: Bool { rules.contains { $0.isDiscretionary || $0.discretionarySize != nil } }

    /// What has made rules of a number, for people; nil: those of the volume.
    func name(of number: Int) -> String? {
        guard origins.indices.contains(number) else { return nil }
        let pattern = origins[number].patterns.last.map { patterns[$0].pattern.text }
        guard let settings = origins[number].file else { return pattern }
        let text = "with \(settings.replacing("\n", with: ", "))"
        return "\(pattern ?? "files") \(text)"
    }

    /// Whether a budget of paths or files bounds anything now.
    var isBounded: Bool { bounds.contains { $0.contains { !$0.limits.isEmpty } } }

    /// Whether a file that rules of a number are for has this setting of its own.
    func isOfFile(_ number: Int, _ name: OptionName) -> Bool {
        origins.indices.contains(number) && FileSettings(origins[number].file)[name] != nil
    }

    private static let limit = 10_000

    /// What is set for the file goes before what a person set for all, and that before what is set for paths.
    private func conditions(of origin: Origin) -> UploadConditions {
        let special = origin.patterns.reduce(OptionValues()) { $0.overridden(by: patterns[$1].values) }
        let others = own.overridden(by: special).overridden(by: overrides)
        return others.overridden(by: FileSettings(origin.file).values)
    }

    /// The budgets that count for the files of an origin: those of every pattern that means them, and their own.
    ///
    /// What a person set for all stands in place of what is set for paths, and is counted of all.
    private func bounds(of origin: Origin) -> [BudgetBound] {
        var found: [BudgetBound] = []
        for index in origin.patterns {
            let limits = ByteBudget.Limits(patterns[index].values)
            guard !limits.isEmpty else { continue }
            let text = patterns[index].pattern.text
            let left = limits.without(ByteBudget.Limits(overrides))
            found.append(BudgetBound(owner: .pattern(text, volume: volume), name: text, limits: left))
        }
        let own = ByteBudget.Limits(FileSettings(origin.file).values)
        // Of each amount of its own, however it is written.
        for part in [ByteBudget.Limits(daily: own.daily), ByteBudget.Limits(monthly: own.monthly)] where !part.isEmpty {
            let name = part.daily == nil ? OptionName.expensiveMonthly : .expensiveDaily
            let text = "\(name.rawValue)=\(part.daily ?? part.monthly ?? 0)"
            found.append(BudgetBound(owner: .files(text, volume: volume), name: "files with \(text)", limits: part))
        }
        return found
    }

    private static func rules(_ conditions: UploadConditions, _ origin: Origin) -> TransferRules {
        var rules = TransferRules(conditions)
        // Whoever says that a file has no time means it, however large the file is.
        if FileSettings(origin.file)[.discretionary] != nil, !rules.isDiscretionary { rules.discretionarySize = nil }
        return rules
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

extension ByteBudget.Limits {
    init(_ values: OptionValues) {
        self.init(daily: values.number(.expensiveDaily), monthly: values.number(.expensiveMonthly))
    }

    /// The same but for those that others have too.
    fileprivate func without(_ others: ByteBudget.Limits) -> ByteBudget.Limits {
        ByteBudget.Limits(daily: others.daily == nil ? daily : nil, monthly: others.monthly == nil ? monthly : nil)
    }
}
