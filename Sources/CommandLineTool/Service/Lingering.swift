// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Conditions
internal import Configuration
internal import Glibc
internal import Platform

/// Whether uploads outlive the logout of this user: systemd ends a user's manager, and removes XDG_RUNTIME_DIR, with the
/// last session, unless the user lingers (loginctl(1)).
struct Lingering: Sendable, Hashable {
    /// Where the flusher runs.
    enum Home: Hashable, Sendable {
        /// Below the user's manager, which ends with the last session.
        case userManager
        /// In a login session, which `KillUserProcesses=` of logind.conf(5) may end with all that is in it.
        case session
        /// Somewhere else: a system service, a container, no systemd.
        case elsewhere
    }

    let home: Home
    let isOn: Bool

    /// The one line of advice; nil when uploads go on after a logout.
    ///
    /// `endsSessions`: a logout ends what runs in the session (KillUserProcesses), whether the user lingers or not.
    func warning(endsSessions: () -> Bool = { LoginManager.endsSessions }) -> String? {
        let linger = "run loginctl enable-linger"
        switch home {
        case .elsewhere: return nil
        case .userManager: return isOn ? nil : "uploads pause at logout: \(linger)"
        case .session where endsSessions():
            return "uploads pause at logout: run moorage service install" + (isOn ? "" : ", and \(linger)")
        case .session: return nil
        }
    }

    /// How it is for a process of this user; `root` is `/`, or what stands in for it.
    init(of pid: Int32, user: UInt32 = geteuid(), name: String? = nil, root: String = "") {
        let groups = (try? Files.read("\(root)/proc/\(pid)/cgroup", limit: 65_536)) ?? []
        home = user == 0 ? .elsewhere : Self.home(ofGroups: String(decoding: groups, as: UTF8.self), user: user)
        isOn = Self.lingers(name ?? Self.name(of: user), root: root)
    }

    /// How it would be there for this user.
    init(home: Home, user: UInt32 = geteuid()) {
        self.home = user == 0 ? .elsewhere : home
        isOn = Self.lingers(Self.name(of: user), root: "")
    }

    private static func lingers(_ name: String?, root: String) -> Bool {
        name.map { access("\(root)/var/lib/systemd/linger/\($0)", F_OK) == 0 } ?? false
    }

    /// Where the lines of /proc/PID/cgroup put a process (cgroups(7)).
    static func home(ofGroups text: String, user: UInt32) -> Home {
        let slice = "/user.slice/user-\(user).slice/"
        for line in text.split(separator: "\n") {
            guard let start = line.firstRange(of: slice) else { continue }
            let rest = line[start.upperBound...]
            if rest.hasPrefix("user@\(user).service") { return .userManager }
            if rest.hasPrefix("session-") { return .session }
        }
        return .elsewhere
    }

    private static func name(of user: UInt32) -> String? {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 16_384)
        guard getpwuid_r(user, &entry, &buffer, buffer.count, &found) == 0, found != nil, let name = entry.pw_name
        else {
            return nil
        }
        return String(cString: name)
    }
}

extension Instance {
    /// Whether this user's uploads end with a logout; nil when not.
    ///
    /// `pid` is the flusher's; without one it would be started from here.
    func lingerWarning(flusher pid: Int32? = nil) -> String? {
        let holder = pid ?? FileLock.holder(of: directories.flusherLock).pid
        return Lingering(of: holder ?? getpid()).warning()
    }
}
