// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Control

/// Tells a person what would have held the uploads that go because the person asked for them.
final class OverrideNotice {
    private let instance: Instance
    private var told: Set<String> = []

    init(_ instance: Instance) {
        self.instance = instance
    }

    /// Prints a line on standard error for each volume of a selection that is held, once.
    func print(for selection: UploadSelection) {
        guard let client = try? instance.connect(), case .policy(let report)? = try? client.ask(.policy) else {
            // A flusher of an earlier version that still runs holds nothing.
            return
        }
        for volume in report.volumes where selection.isMeant(volume.id) && told.insert(volume.id).inserted {
            let reasons = volume.holds.map(\.reason).filter { $0 != "offline" }
            guard !reasons.isEmpty else { continue }
            Console.note("\(volume.remote): sent now as you ask for it, although: \(reasons.joined(separator: ", "))")
        }
    }
}

extension UploadSelection {
    /// Whether a volume may have uploads that are meant; ids begin with that of their volume.
    fileprivate func isMeant(_ volume: String) -> Bool {
        guard volumes.isEmpty else { return volumes.contains(volume) }
        return ids.isEmpty || ids.contains { $0.hasPrefix(volume.prefix(8)) }
    }
}
