// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration

/// Why one of the user's programs is run.
enum Hook: Hashable, Sendable {
    /// Nothing is pending in a volume any more.
    case idle(volume: String, remote: String)
    /// Something of a volume needs a person; `path` is empty where it is the volume itself.
    case attention(volume: String, remote: String, path: String, reason: String)
    /// An upload that has waited is about to begin.
    case beforeStart(volume: String, remote: String, path: String, size: Int64, waited: Double)

    /// What of our environment a program gets besides: nothing that could be a secret.
    private static let passed = [
        "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY", "WAYLAND_DISPLAY", "MOORAGE_CONFIG", "MOORAGE_STATE_DIR", "MOORAGE_CACHE_DIR", "MOORAGE_RUNTIME_DIR",
    ]

    /// The whole environment of the program.
    func environment(of ours: [String: String]) -> [String: String] {
        var result = ours.filter { Self.passed.contains($0.key) }
        if result["PATH"] == nil { result["PATH"] = "/usr/local/bin:/usr/bin:/bin" }
        for (name, value) in values { result["MOORAGE_" + name] = value }
        return result
    }

    private var values: [(String, String)] {
        switch self {
        case .idle(let volume, let remote): [("EVENT", "idle"), ("VOLUME", volume), ("REMOTE", remote)]
        case .attention(let volume, let remote, let path, let reason):
            [("EVENT", "attention"), ("VOLUME", volume), ("REMOTE", remote), ("PATH", path), ("REASON", reason)]
        case .beforeStart(let volume, let remote, let path, let size, let waited):
            [
                ("EVENT", "before-start"), ("VOLUME", volume), ("REMOTE", remote), ("PATH", path), ("SIZE", "\(size)"),
                ("WAITED", "\(Int64(waited))"),
            ]
        }
    }
}

/// What a program that was asked before an upload begins wants.
enum StartAnswer: Hashable, Sendable {
    case start
    /// Not before so many seconds have passed.
    case hold(seconds: Double)
    /// Not without a person.
    case refuse(reason: String)

    /// The longest time that may be asked for, in seconds.
    static let longest = 7 * 86_400.0

    /// Reads the exit status and the first line of what was printed; nil for an answer that is none.
    init?(status: Int32, output: String) {
        let line = String(output.split(separator: "\n", omittingEmptySubsequences: false).first ?? "")
        switch status {
        case 0: self = .start
        case 10:
            let word = line.split(separator: " ").first.map(String.init) ?? ""
            guard let seconds = OptionValue.parseSeconds(word), seconds > 0 else { return nil }
            self = .hold(seconds: min(seconds, Self.longest))
        case 11: self = .refuse(reason: line.isEmpty ? "before_start refused it" : "before_start: \(line.prefix(200))")
        default: return nil
        }
    }
}
