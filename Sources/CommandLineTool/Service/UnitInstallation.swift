// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Glibc
internal import Platform

/// Where the units of this user's flusher are, and what is in them.
struct UnitInstallation: Sendable {
    let units: ServiceUnits
    /// The folder that the service manager reads them from.
    let folder: String

    /// For this user's folders and this program; `folder` in place of where the manager looks.
    init(scope: ServiceUnits.Scope, instance: Instance, folder: String? = nil) throws(CommandFailure) {
        let executable: String
        do throws(SystemError) {
            executable = try ChildProcess.executablePath()
        } catch {
            throw CommandFailure("service: \(error)")
        }
        units = ServiceUnits(
            scope: scope,
            executable: executable,
            socket: instance.directories.controlSocket,
            writable: Self.writableFolders(instance),
            environment: Self.environment(),
            hasNamespaces: scope == .system || Self.mayMakeNamespaces
        )
        if let folder { self.folder = folder } else { self.folder = try Self.folder(of: scope) }
    }

    /// Writes the units; returns their paths.
    func write() throws(CommandFailure) -> [String] {
        var paths: [String] = []
        do throws(SystemError) {
            try Files.makeDirectories(folder, mode: 0o755)
            for file in units.files {
                let path = "\(folder)/\(file.name)"
                try Files.writeAtomically(path, Array(file.text.utf8))
                // They hold no secret, and systemctl(1) shows them to everybody.
                if chmod(path, 0o644) != 0 { throw SystemError.last("chmod", path) }
                paths.append(path)
            }
        } catch {
            throw CommandFailure("service: \(error.description)")
        }
        return paths
    }

    /// Removes the units; returns the paths of those that were there.
    func remove() throws(CommandFailure) -> [String] {
        var paths: [String] = []
        do throws(SystemError) {
            for path in units.files.map({ "\(folder)/\($0.name)" }) where try FileStatus.of(path) != nil {
                try Files.removeIfPresent(path)
                paths.append(path)
            }
        } catch {
            throw CommandFailure("service: \(error.description)")
        }
        return paths
    }

    /// Whether there are units, and whether they are as ``write()`` would make them.
    var state: (isInstalled: Bool, isCurrent: Bool) {
        let found = units.files.map { file in
            (try? Files.read("\(folder)/\(file.name)", limit: 65_536)).map { $0 == Array(file.text.utf8) }
        }
        return (!found.contains(nil), found.allSatisfy { $0 == true })
    }

    // MARK: what goes into them

    private static func folder(of scope: ServiceUnits.Scope) throws(CommandFailure) -> String {
        guard scope == .user else { return "/etc/systemd/system" }
        if let base = ProcessEnvironment.value("XDG_CONFIG_HOME"), base.hasPrefix("/") { return base + "/systemd/user" }
        guard let home = ProcessEnvironment.value("HOME"), home.hasPrefix("/") else {
            throw CommandFailure("service: HOME is not set; give the folder with --directory")
        }
        return home + "/.config/systemd/user"
    }

    /// The folders that the flusher writes to, without those that are within others.
    private static func writableFolders(_ instance: Instance) -> [String] {
        let directories = instance.directories
        var folders = [directories.state, directories.cache, directories.runtime]
        for volume in instance.volumes() {
            folders += [volume.stateDirectory, volume.cacheDirectory].compactMap { $0 }
        }
        let sections = [instance.configuration.policy] + instance.configuration.volumes.map(\.values)
        for values in sections {
            folders += [values.text(.stateDirectory), values.text(.cacheDirectory)].compactMap { $0 }
        }
        return Set(folders).filter { one in !folders.contains { one.hasPrefix($0 + "/") } }.sorted()
    }

    /// The variables that say where things are, as far as they are set: the manager's environment is another one.
    private static func environment() -> [String: String] {
        let own = ["MOORAGE_CONFIG", "MOORAGE_STATE_DIR", "MOORAGE_CACHE_DIR", "MOORAGE_RUNTIME_DIR"]
        let common = geteuid() == 0 ? [] : ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"]
        let found = (own + common).compactMap { name in ProcessEnvironment.value(name).map { (name, $0) } }
        return Dictionary(found) { first, _ in first }
    }

    /// Whether this user may make name spaces of users, without which a user's manager has no others either.
    private static var mayMakeNamespaces: Bool {
        func number(_ path: String) -> Int? {
            guard let text = try? Files.read("/proc/sys/" + path, limit: 64) else { return nil }
            return Int(String(decoding: text, as: UTF8.self).prefix { $0.isNumber })
        }
        return number("user/max_user_namespaces") != 0 && number("kernel/unprivileged_userns_clone") != 0
            && number("kernel/apparmor_restrict_unprivileged_userns") ?? 0 == 0
    }
}
