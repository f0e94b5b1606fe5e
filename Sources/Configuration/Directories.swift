// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import Glibc
internal import Platform

/// Where this user's (or root's, or this instance's) files are; each can be set by an environment variable.
package struct Directories: Sendable, Hashable {
    /// The configuration file: `MOORAGE_CONFIG`, `/etc/moorage/config`, `$XDG_CONFIG_HOME/moorage/config`.
    package var configuration: String
    /// Journals and unsent data: `MOORAGE_STATE_DIR`, `/var/lib/moorage`, `$XDG_STATE_HOME/moorage`.
    package var state: String
    /// What may be deleted at any time: `MOORAGE_CACHE_DIR`, `/var/cache/moorage`, `$XDG_CACHE_HOME/moorage`.
    package var cache: String
    /// Control socket and locks: `MOORAGE_RUNTIME_DIR`, `/run/moorage`, `$XDG_RUNTIME_DIR/moorage`.
    package var runtime: String
    /// The control socket of the user's service, where the runtime folder is another one for want of XDG_RUNTIME_DIR,
    /// as in cron's jobs.
    package var serviceSocket: String?

    package init(configuration: String, state: String, cache: String, runtime: String, serviceSocket: String? = nil) {
        self.serviceSocket = serviceSocket
        self.configuration = configuration
        self.state = state
        self.cache = cache
        self.runtime = runtime
    }

    /// Finds the folders from an environment and the effective user id, creating nothing.
    ///
    /// With another state folder but no runtime folder given, the runtime folder is one of its own too, so that the
    /// flusher of one instance is never taken for another's.
    package init(environment: [String: String], user: UInt32) throws(ConfigurationError) {
        let isRoot = user == 0
        func variable(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }
        func place(_ own: String, _ root: String, _ xdg: String, _ home: String) throws(ConfigurationError) -> String {
            if let path = variable(own) { return try absolute(path, own) }
            if isRoot { return root }
            if let base = variable(xdg), base.hasPrefix("/") { return base + "/moorage" }
            guard let folder = variable("HOME"), folder.hasPrefix("/") else {
                throw ConfigurationError("HOME", "is not set, and neither is \(own): set one of them")
            }
            return folder + "/" + home + "/moorage"
        }
        let folder = try place("MOORAGE_CONFIG", "/etc/moorage/config", "XDG_CONFIG_HOME", ".config")
        configuration = variable("MOORAGE_CONFIG") != nil || isRoot ? folder : folder + "/config"
        state = try place("MOORAGE_STATE_DIR", "/var/lib/moorage", "XDG_STATE_HOME", ".local/state")
        cache = try place("MOORAGE_CACHE_DIR", "/var/cache/moorage", "XDG_CACHE_HOME", ".cache")
        if let path = variable("MOORAGE_RUNTIME_DIR") {
            runtime = try absolute(path, "MOORAGE_RUNTIME_DIR")
        } else {
            let shared = isRoot ? "/run" : variable("XDG_RUNTIME_DIR").flatMap { $0.hasPrefix("/") ? $0 : nil }
            let base = shared.map { $0 + "/moorage" } ?? "/tmp/moorage-\(user)"
            let isOwnInstance = variable("MOORAGE_STATE_DIR") != nil
            let instance = Hexadecimal.encode(Array(Digest.of(Array(state.utf8), .sha256).prefix(6)))
            runtime = isOwnInstance ? base + "-" + instance : base
            if !isOwnInstance, !isRoot, shared == nil { serviceSocket = "/run/user/\(user)/moorage/control.sock" }
        }
    }

    /// The folders of this process.
    package static func current() throws(ConfigurationError) -> Directories {
        try Directories(environment: ProcessEnvironment.all(), user: geteuid())
    }

    package var controlSocket: String { runtime + "/control.sock" }
    package var flusherLock: String { runtime + "/flusher.lock" }
    /// The lock of the one flusher of the state folder, whatever runtime folder it was started with.
    package var stateLock: String { state + "/state.lock" }
    /// Holds the path of the control socket of the holder of ``stateLock``.
    package var socketNote: String { state + "/state.socket" }
    /// What was set with `policy set` for now.
    package var policyOverrides: String { state + "/policy.json" }
    /// What went over networks that cost, this day and this month.
    package var budget: String { state + "/budget.json" }
    /// The bandwidth that the processes of this instance share.
    package var bandwidth: String { state + "/bandwidth" }
    package var flusherLog: String { runtime + "/flusher.log" }
    package func mountLog(_ volume: String) -> String { runtime + "/mount-\(volume).log" }
    /// The folder of all volumes' states.
    package var volumes: String { state + "/volumes" }

    /// The folder where a volume is registered, by its id.
    package func registration(of id: String) -> String { volumes + "/" + id }

    /// Where a volume keeps its things.
    package func places(of volume: VolumeDescription) -> VolumePlaces {
        VolumePlaces(
            registration: registration(of: volume.id),
            state: volume.stateDirectory.map { $0 + "/volumes/" + volume.id } ?? registration(of: volume.id),
            cache: (volume.cacheDirectory ?? cache) + "/volumes/" + volume.id
        )
    }

    /// Makes the state and runtime folders and refuses those that others own or can write to.
    package func prepare() throws(ConfigurationError) {
        try PrivateDirectory.prepare(state)
        try PrivateDirectory.prepare(volumes)
        try PrivateDirectory.prepare(runtime)
        guard controlSocket.utf8.count < 108 else {
            throw ConfigurationError(runtime, "too long for a socket's path; set MOORAGE_RUNTIME_DIR to a shorter one")
        }
    }
}

private func absolute(_ path: String, _ name: String) throws(ConfigurationError) -> String {
    guard path.hasPrefix("/") else { throw ConfigurationError("\(name)=\(path)", "must be an absolute path") }
    var path = path
    while path.count > 1, path.hasSuffix("/") { path.removeLast() }
    return path
}

/// The folders and files of one volume.
package struct VolumePlaces: Sendable, Hashable {
    /// Where `volume.json` is: always below the state folder, so that the flusher finds it.
    package let registration: String
    /// The folder of the journal, the staging files and the mount's lock.
    package let state: String
    /// The folder of the catalog and the block cache.
    package let cache: String

    package var description: String { registration + "/volume.json" }
    package var mountLock: String { state + "/mount.lock" }
    package var staging: String { state + "/staging" }
    package var quarantine: String { state + "/quarantine" }
    package var blocks: String { cache + "/blocks" }
    /// Where the mount tells how its cache is: not on the cache's disk, which may be what fails.
    package var cacheNote: String { state + "/cache.note" }

    /// The list of what is pinned.
    package var pins: String { state + "/pins" }

    /// Names this state folder of this machine to the remote, where other machines and users write too.
    package var owner: String {
        let machine = ["/etc/machine-id", "/proc/sys/kernel/hostname"].map { path in
            (try? Files.read(path, limit: 256)) ?? []
        }
        let digest = Digest.of(Array(machine.joined()) + Array(state.utf8), .sha256)
        return Hexadecimal.encode(Array(digest.prefix(6)))
    }

    /// Makes the folders and refuses those that others own or can write to.
    package func prepare() throws(ConfigurationError) {
        for folder in [registration, state] { try PrivateDirectory.prepare(folder) }
        // Without a folder for it there is no cache, and reads go past it.
        do throws(SystemError) { try Files.makeDirectories(cache) } catch { return }
        try PrivateDirectory.check(cache, user: geteuid())
    }
}
