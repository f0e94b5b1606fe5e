// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
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
    /// As these have it, which may be later.
    case change([UploadWish])
    /// Not at all, unless a person asks for it.
    case cancel(reason: String)

    /// The longest time that may be asked for by itself, in seconds.
    static let longest = 7 * 86_400.0
    /// The most settings that it may change.
    private static let limit = 32

    /// Reads the exit status and what was printed; nil for an answer that is none.
    init?(status: Int32, output: String, now: Timestamp) {
        let lines = output.split(whereSeparator: \.isNewline).map(String.init)
        switch status {
        case 0: self = .start
        case 10:
            guard let wishes = Self.wishes(lines, now: now) else { return nil }
            self = .change(wishes)
        case 11:
            self = .cancel(reason: lines.first.map { "before_start: \($0.prefix(200))" } ?? "before_start cancelled it")
        default: return nil
        }
    }

    /// What is to be changed: a time to wait for as the first word, or lines of `KEY=VALUE`.
    private static func wishes(_ lines: [String], now: Timestamp) -> [UploadWish]? {
        guard let first = lines.first, lines.count <= limit else { return nil }
        if let word = first.split(separator: " ").first, let seconds = OptionValue.parseSeconds(String(word)) {
            return seconds > 0 ? [.notBefore(now.advanced(bySeconds: min(seconds, longest)))] : nil
        }
        let wishes = lines.compactMap { UploadWish(line: $0, now: now) }
        return wishes.count == lines.count ? wishes : nil
    }
}
