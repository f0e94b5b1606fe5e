// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration
internal import Glibc
internal import Platform

/// `moorage service`: lets systemd run the flusher.
enum ServiceCommand {
    static let definition = CommandDefinition(
        name: "service",
        operands: "install | uninstall | status",
        operandCount: 1...1,
        flags: [
            FlagDefinition("user", nil, "this user's service manager; the default for all but root"),
            FlagDefinition("system", nil, "the machine's service manager, for root's mounts"),
            FlagDefinition("directory", "FOLDER", "write the units there and start nothing, as for a package"),
            FlagDefinition("no-start", nil, "write the units and start nothing"),
            FlagDefinition("json", nil, "print one JSON document (status)"),
        ],
        summary: "let systemd run the flusher: at start, on demand, and again when it fails",
        details: """
            install    write moorage-flusher.service and moorage-flusher.socket, enable and start them
            uninstall  stop and disable them, and remove the files
            status     what is installed, what runs, and whether uploads outlive a logout

            A user's units lie in ~/.config/systemd/user, the machine's in /etc/systemd/system. Lingering is never
            switched on: Docs/Service.md tells when it is needed.
            """
    ) { arguments throws(CommandFailure) in
        let verb = arguments.operands[0]
        let scope = try scope(arguments)
        let directory = arguments.value("directory")
        if let directory, !directory.hasPrefix("/") {
            throw .usage("service: --directory \(directory): must be an absolute path")
        }
        guard verb == "status" || !arguments.has("json") else { throw .usage("service: --json goes with status") }
        let instance = try Instance.current()
        let installation = try UnitInstallation(scope: scope, instance: instance, folder: directory)
        switch verb {
        case "install":
            let isQuiet = directory != nil || arguments.has("no-start")
            return try install(installation, instance, starts: !isQuiet)
        case "uninstall": return try uninstall(installation, stops: directory == nil)
        case "status": return try status(installation, instance, json: arguments.has("json"))
        default: throw .usage("service: unknown verb \(verb): use install, uninstall or status")
        }
    }

    private static func scope(_ arguments: ParsedArguments) throws(CommandFailure) -> ServiceUnits.Scope {
        let isRoot = geteuid() == 0
        guard !arguments.has("user") || !arguments.has("system") else {
            throw .usage("service: --user and --system exclude each other")
        }
        let isSystem = arguments.has("system") || isRoot && !arguments.has("user")
        // Units that are only written somewhere may be another's.
        guard !arguments.has("directory"), arguments.operands[0] != "status" else { return isSystem ? .system : .user }
        if isSystem, !isRoot { throw CommandFailure("service: the machine's units are root's: run it as root") }
        if !isSystem, isRoot { throw .usage("service: root's flusher is a service of the machine: use --system") }
        return isSystem ? .system : .user
    }

    private static let units = [ServiceUnits.socketUnitName, ServiceUnits.serviceName]

    private static func install(
        _ installation: UnitInstallation,
        _ instance: Instance,
        starts: Bool
    ) throws(CommandFailure) -> Int32 {
        // Name spaces are made with these folders, which therefore must be there.
        for folder in installation.units.writable { try? Files.makeDirectories(folder) }
        for path in try installation.write() { Console.line("wrote \(path)") }
        let manager = SystemManager(scope: installation.units.scope)
        let steps = [["daemon-reload"], ["enable", "--quiet"] + units, ["restart"] + units]
        guard starts, manager.isRunning else {
            if starts { Console.note("service: no systemd runs here") }
            for step in steps { Console.line("to start it: \(manager.command(step))") }
            return 0
        }
        for step in steps {
            try manager.run(step)
            Console.line(manager.command(step))
        }
        if installation.units.scope == .user, let warning = Lingering(home: .userManager).warning() {
            Console.note(warning)
        }
        return 0
    }

    private static func uninstall(_ installation: UnitInstallation, stops: Bool) throws(CommandFailure) -> Int32 {
        let manager = SystemManager(scope: installation.units.scope)
        guard installation.state.isInstalled || !stops else {
            throw CommandFailure("service: no units in \(installation.folder)")
        }
        let isManaged = stops && manager.isRunning
        if isManaged {
            let step = ["disable", "--now", "--quiet"] + units
            try manager.run(step)
            Console.line(manager.command(step))
        }
        for path in try installation.remove() { Console.line("removed \(path)") }
        if isManaged { try manager.run(["daemon-reload"]) }
        return 0
    }

    private static func status(
        _ installation: UnitInstallation,
        _ instance: Instance,
        json: Bool
    ) throws(CommandFailure) -> Int32 {
        let report = ServiceReport(installation)
        if json {
            Console.bytes(try document(report))
        } else {
            for line in report.lines { Console.line(line) }
        }
        return 0
    }
}

/// The document of `service status --json`.
struct ServiceReport: Encodable, Sendable {
    /// `user` or `system`.
    var scope: String
    var folder: String
    var installed: Bool
    /// Whether the units are as this program would write them.
    var current: Bool
    var socketActive: Bool
    var serviceActive: Bool
    /// Whether this user's services outlive the logout; nil for the machine's.
    var linger: Bool?
    var warning: String?

    init(_ installation: UnitInstallation) {
        let manager = SystemManager(scope: installation.units.scope)
        let (isInstalled, isCurrent) = installation.state
        let isRunning = isInstalled && manager.isRunning
        let lingering = Lingering(home: .userManager)
        scope = installation.units.scope.rawValue
        folder = installation.folder
        installed = isInstalled
        current = isInstalled && isCurrent
        socketActive = isRunning && manager.isActive(ServiceUnits.socketUnitName)
        serviceActive = isRunning && manager.isActive(ServiceUnits.serviceName)
        linger = installation.units.scope == .user ? lingering.isOn : nil
        warning = isInstalled && installation.units.scope == .user ? lingering.warning() : nil
    }

    var lines: [String] {
        guard installed else { return ["no units in \(folder); moorage service install writes them"] }
        let age = current ? "" : ", not as this program would write them: run moorage service install"
        var lines = ["units in \(folder)\(age)"]
        lines.append(
            "socket \(socketActive ? "active" : "not active"), service \(serviceActive ? "active" : "not active")"
        )
        if let linger { lines.append("lingering \(linger ? "on" : "off")") }
        return lines + [warning].compactMap { $0 }
    }

    private enum CodingKeys: String, CodingKey {
        case scope
        case folder
        case installed
        case current
        case socketActive = "socket_active"
        case serviceActive = "service_active"
        case linger
        case warning
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(scope, forKey: .scope)
        try container.encode(folder, forKey: .folder)
        try container.encode(installed, forKey: .installed)
        try container.encode(current, forKey: .current)
        try container.encode(socketActive, forKey: .socketActive)
        try container.encode(serviceActive, forKey: .serviceActive)
        try container.encode(linger, forKey: .linger)
        try container.encode(warning, forKey: .warning)
    }
}
