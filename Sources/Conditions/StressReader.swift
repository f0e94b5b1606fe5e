// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform
package import Policy

/// How hard the machine works, and how hot it is; a pure value that is told what files say.
///
/// Both are such at once when they pass a line, and are such no more only when they were below a lower one twice in a
/// row: work that stands back for a moment makes neither of them better for long.
package struct MachineStress: Hashable, Sendable {
    /// The share of the last ten seconds in which somebody waited, in percent (`avg10` of the lines `some` of
    /// `/proc/pressure`); nil where the kernel does not tell.
    package struct Stalls: Hashable, Sendable {
        package var cpu: Double?
        package var io: Double?
        package var memory: Double?

        package init(cpu: Double? = nil, io: Double? = nil, memory: Double? = nil) {
            self.cpu = cpu
            self.io = io
            self.memory = memory
        }

        /// By how much the worst of them is above its line.
        fileprivate var excess: Double? {
            [cpu.map { $0 - 30 }, io.map { $0 - 20 }, memory.map { $0 - 20 }].compactMap(\.self).max()
        }
    }

    private static let margin = 10.0
    /// In thousandths of a degree Celsius.
    private static let cooling = 5_000

    package private(set) var pressure = MachineFacts.Answer.unknown
    package private(set) var heat = MachineFacts.Answer.unknown
    /// They were below the lower line when they were looked at last.
    private var isCalm = false
    private var isCool = false

    package init() {}

    /// Takes in how much is waited for.
    package mutating func observe(_ stalls: Stalls) {
        guard let excess = stalls.excess else { return forgetPressure() }
        Self.weigh(&pressure, &isCalm, isAbove: excess > 0, isBelow: excess <= -Self.margin)
    }

    /// Takes in each zone that has one: its temperature, and the lowest at which the kernel slows the machine down.
    package mutating func observe(zones: [(temperature: Int, limit: Int)]) {
        guard let excess = zones.map({ $0.temperature - $0.limit }).max() else { return forgetHeat() }
        Self.weigh(&heat, &isCool, isAbove: excess >= 0, isBelow: excess < -Self.cooling)
    }

    private mutating func forgetPressure() { (pressure, isCalm) = (.unknown, false) }
    private mutating func forgetHeat() { (heat, isCool) = (.unknown, false) }

    private static func weigh(
        _ answer: inout MachineFacts.Answer,
        _ wasBelow: inout Bool,
        isAbove: Bool,
        isBelow: Bool
    ) {
        if isAbove { answer = .yes } else if answer != .yes || isBelow && wasBelow { answer = .no }
        wasBelow = isBelow
    }

    /// The `avg10` of the line `some` of a file of `/proc/pressure`.
    package static func average(in text: String) -> Double? {
        let line = text.split(separator: "\n").first { $0.hasPrefix("some ") }
        let word = line?.split(separator: " ").first { $0.hasPrefix("avg10=") }
        return word.flatMap { Double($0.dropFirst("avg10=".count)) }
    }
}

/// Reads the files that tell of a machine's stress.
package struct StressReader: Sendable {
    private let processFolder: String
    private let systemFolder: String
    /// The most zones, and trip points of one, that are read.
    private static let limit = 32

    /// The folders are `/proc` and `/sys`, or what stands in for them.
    package init(processFolder: String = "/proc", systemFolder: String = "/sys") {
        self.processFolder = processFolder
        self.systemFolder = systemFolder
    }

    package func read(_ stress: inout MachineStress) {
        stress.observe(MachineStress.Stalls(cpu: average("cpu"), io: average("io"), memory: average("memory")))
        stress.observe(zones: zones())
    }

    private func average(_ resource: String) -> Double? {
        text("\(processFolder)/pressure/\(resource)").flatMap { MachineStress.average(in: $0) }
    }

    /// See Documentation/driver-api/thermal/sysfs-api.rst of the kernel.
    private func zones() -> [(temperature: Int, limit: Int)] {
        let folder = systemFolder + "/class/thermal"
        guard let names = try? Files.names(in: folder) else { return [] }
        let zones = names.map(\.string).filter { $0.hasPrefix("thermal_zone") }.sorted().prefix(Self.limit)
        return zones.compactMap { zone in
            guard let temperature = number("\(folder)/\(zone)/temp") else { return nil }
            let limits = (0..<Self.limit).compactMap { point -> Int? in
                let kind = text("\(folder)/\(zone)/trip_point_\(point)_type")
                guard kind == "passive" || kind == "hot" else { return nil }
                return number("\(folder)/\(zone)/trip_point_\(point)_temp").flatMap { $0 > 0 ? $0 : nil }
            }
            return limits.min().map { (temperature, $0) }
        }
    }

    private func number(_ path: String) -> Int? { text(path).flatMap { Int($0) } }

    private func text(_ path: String) -> String? {
        guard let bytes = try? Files.read(path, limit: 4096) else { return nil }
        let text = String(decoding: bytes, as: UTF8.self)
        return text.hasSuffix("\n") ? String(text.dropLast()) : text
    }
}
