// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What logind says of logins (org.freedesktop.login1(5)).
package enum LoginManager {
    /// Whether a logout ends what runs in the session: KillUserProcesses= of logind.conf(5); false when nobody says.
    package static var endsSessions: Bool {
        guard let library = BusLibrary.load(), let bus = try? BusConnection(library) else { return false }
        let properties = try? bus.properties(
            of: "org.freedesktop.login1.Manager",
            at: "/org/freedesktop/login1",
            service: "org.freedesktop.login1"
        )
        return properties?["KillUserProcesses"] == .boolean(true)
    }
}
