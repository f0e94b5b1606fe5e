// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Control
internal import Platform
internal import Policy

/// The pauses of a volume's folders, in memory and in a file beside the journal (mode 0600).
///
/// Only the flusher writes them.
final class PauseStore: Sendable {
    private static let limit = 16 << 20

    private let path: String
    private let rules: Lock<PauseRules>

    /// Reads what was written before; what cannot be read holds nothing, and is said in the log.
    init(directory: String) {
        path = directory + "/pauses.json"
        rules = Lock(Self.read(path))
    }

    var current: PauseRules { rules.withLock { $0 } }

    /// What holds a path, the outermost first.
    func holding(_ path: ObjectKey) -> [PauseRules.Rule] { rules.withLock { $0.holding(path) } }

    /// Changes the rules once the change is sure to outlive us.
    func change<Result>(_ body: (inout PauseRules) -> Result) throws(SystemError) -> Result {
        try rules.withLock { (rules) throws(SystemError) in
            var changed = rules
            let result = body(&changed)
            guard changed != rules else { return result }
            try write(changed)
            rules = changed
            return result
        }
    }

    private func write(_ rules: PauseRules) throws(SystemError) {
        let document = PauseDocument(
            pauses: rules.all.map { PauseReport(path: $0.path.string, since: $0.since.seconds) }
        )
        guard let bytes = try? JSON.encode(document) else { return }
        try Files.removeAbandoned(of: path)
        try Files.writeAtomically(path, bytes + [0x0A])
    }

    private static func read(_ path: String) -> PauseRules {
        do {
            guard try FileStatus.of(path) != nil else { return PauseRules() }
            let document = try JSON.decode(PauseDocument.self, from: try Files.read(path, limit: limit))
            return PauseRules(
                document.pauses.map { .init(path: ObjectKey($0.path), since: Timestamp(seconds: $0.since)) }
            )
        } catch {
            Log.warning("flusher", "\(path): \(error); folders that were paused are not any more")
            return PauseRules()
        }
    }
}
