// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration
internal import Glibc

/// systemd's manager of the machine or of this user, driven by systemctl(1).
struct SystemManager: Sendable {
    let scope: ServiceUnits.Scope

    /// Whether it runs and can be reached from here.
    var isRunning: Bool {
        guard access("/run/systemd/system", F_OK) == 0 else { return false }
        guard scope == .user else { return true }
        let runtime = ProcessEnvironment.value("XDG_RUNTIME_DIR") ?? "/run/user/\(geteuid())"
        return access(runtime + "/systemd/private", F_OK) == 0
    }

    /// As a person would type it.
    func command(_ words: [String]) -> String {
        (["systemctl"] + options + words).joined(separator: " ")
    }

    /// Runs a verb; throws with the command line when it fails.
    func run(_ words: [String]) throws(CommandFailure) {
        let status = try ExternalProgram.run("systemctl", options + words)
        guard status == 0 else {
            throw CommandFailure("service: \(command(words)) ended with \(status); run it to see why")
        }
    }

    func isActive(_ unit: String) -> Bool {
        (try? ExternalProgram.run("systemctl", options + ["is-active", "--quiet", unit])) == 0
    }

    private var options: [String] { scope == .user ? ["--user"] : [] }
}
