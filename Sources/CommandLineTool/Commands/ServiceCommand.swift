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
            FlagDefinition("json", nil, "print one JSON document"),
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
        let instance = try Instance.current()
        let installation = try UnitInstallation(scope: scope, instance: instance, folder: directory)
        let json = arguments.has("json")
        var change = ServiceChange(isTold: !json)
        switch verb {
        case "install":
            let isQuiet = directory != nil || arguments.has("no-start")
            try install(installation, instance, starts: !isQuiet, &change)
        case "uninstall": try uninstall(installation, stops: directory == nil, &change)
        case "status": return try status(installation, json: json)
        default: throw .usage("service: unknown verb \(verb): use install, uninstall or status")
        }
        if json { Console.bytes(try document(change)) }
        return 0
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
        starts: Bool,
        _ change: inout ServiceChange
    ) throws(CommandFailure) {
        // Name spaces are made with these folders, which therefore must be there.
        for folder in installation.units.writable { try? Files.makeDirectories(folder) }
        for path in try installation.write() { change.wrote(path) }
        let manager = SystemManager(scope: installation.units.scope)
        let steps = [["daemon-reload"], ["enable", "--quiet"] + units, ["restart"] + units]
        guard starts, manager.isRunning else {
            if starts { Console.note("service: no systemd runs here") }
            for step in steps { change.left(manager.command(step)) }
            return
        }
        for step in steps {
            try manager.run(step)
            change.ran(manager.command(step))
        }
        if installation.units.scope == .user, let warning = Lingering(home: .userManager).warning() {
            Console.note(warning)
            change.warning = warning
        }
    }

    private static func uninstall(
        _ installation: UnitInstallation,
        stops: Bool,
        _ change: inout ServiceChange
    ) throws(CommandFailure) {
        let manager = SystemManager(scope: installation.units.scope)
        guard installation.state.isInstalled || !stops else {
            throw CommandFailure("service: no units in \(installation.folder)")
        }
        let isManaged = stops && manager.isRunning
        if isManaged {
            let step = ["disable", "--now", "--quiet"] + units
            try manager.run(step)
            change.ran(manager.command(step))
        }
        for path in try installation.remove() { change.removed(path) }
        if isManaged {
            let step = ["daemon-reload"]
            try manager.run(step)
            change.ran(manager.command(step))
        }
    }

    private static func status(
        _ installation: UnitInstallation,
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

/// The document of `service install --json` and `service uninstall --json`, and what tells the same in lines meanwhile.
struct ServiceChange: Encodable, Sendable {
    private var wrote: [String] = []
    private var removed: [String] = []
    /// The commands that were carried out.
    private var ran: [String] = []
    /// The commands that are left to whoever wants the units to run.
    private var left: [String] = []
    /// What a person should know; null where there is nothing.
    var warning: String?
    private let isTold: Bool

    /// `isTold`: each step is printed as a line when it is done.
    init(isTold: Bool) {
        self.isTold = isTold
    }

    mutating func wrote(_ path: String) {
        wrote.append(path)
        tell("wrote \(path)")
    }

    mutating func removed(_ path: String) {
        removed.append(path)
        tell("removed \(path)")
    }

    mutating func ran(_ command: String) {
        ran.append(command)
        tell(command)
    }

    mutating func left(_ command: String) {
        left.append(command)
        tell("to start it: \(command)")
    }

    private func tell(_ line: String) {
        if isTold { Console.line(line) }
    }

    private enum CodingKeys: String, CodingKey {
        case wrote, removed, ran, left, warning
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(wrote, forKey: .wrote)
        try container.encode(removed, forKey: .removed)
        try container.encode(ran, forKey: .ran)
        try container.encode(left, forKey: .left)
        try container.encode(warning, forKey: .warning)
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
