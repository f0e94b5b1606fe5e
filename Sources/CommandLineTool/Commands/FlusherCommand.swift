// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Bandwidth
internal import Base
internal import CShims
internal import Conditions
internal import Configuration
internal import Control
internal import CurlTransport
internal import Flusher
internal import Glibc
internal import ObjectStore
internal import Platform
internal import Policy

/// `moorage flusher`: the process that sends what is pending, started by mounts and commands.
enum FlusherCommand {
    static let definition = CommandDefinition(
        name: "flusher",
        operands: "",
        operandCount: 0...0,
        flags: [
            FlagDefinition("foreground", nil, "stay in the foreground (it always does)"),
            FlagDefinition("exit-when-idle", "SECONDS", "end after this time with nothing to do; default 30"),
            FlagDefinition("verbose", nil, "log every step on standard error"),
        ],
        summary: "send what is pending; started by mounts and commands when needed"
    ) { arguments throws(CommandFailure) in
        // Before anything else: no child and no thread is to see the variables that are taken away here.
        let service = ServiceManager.ofThisProcess()
        let sockets = ActivatedSocket.ofThisProcess()
        let idle = try arguments.seconds("exit-when-idle") ?? 30
        let instance = try Instance.current()
        yieldToOthers()
        if arguments.has("verbose") { Log.level = .debug }
        Log.keepShort(LogFile(instance.directories.flusherLog))
        LostPage.tellOfIt()
        var options = FlusherOptions(
            directories: instance.directories,
            exitWhenIdle: idle,
            program: "moorage \(CommandLineTool.comparedVersion)"
        )
        options.service = service
        options.socket = try controlSocket(sockets)
        let policy = instance.configuration.policy
        options.largeUploads = policy.number(.parallelFiles).map(Int.init) ?? options.largeUploads
        options.partsPerFile = policy.number(.parallelParts).map(Int.init) ?? options.partsPerFile
        options.budget.daily = policy.number(.expensiveDaily)
        options.budget.monthly = policy.number(.expensiveMonthly)
        let systemFolder = ProcessEnvironment.value("MOORAGE_SYSFS") ?? "/sys"
        options.stress = StressReader(
            processFolder: ProcessEnvironment.value("MOORAGE_PROCFS") ?? "/proc",
            systemFolder: systemFolder
        )
        options.watching = WatchingOptions(policy)
        options.environment = ProcessEnvironment.all()
        options.conditions = try? MachineWatcher(
            systemFolder: systemFolder,
            lowDataNetworks: Set(policy.names(.lowDataNetworks))
        )
        options.sleep = try? SleepWatcher()
        options.limits = policy
        options.bandwidth = instance.sharedBandwidth()
        let stores = VolumeStores(instance, options.bandwidth, options.trafficRules)
        options.renewConnections = { stores.renewConnections() }
        return FlusherProcess.run(options: options) { volume, credentials throws(StoreError) in
            try stores.make(volume, credentials)
        }
    }
}

extension FlusherCommand {
    /// How far behind other programs uploads stand: nice(1)'s default, with which goes a low priority at the disk
    /// (ioprio_set(2)).
    private static let niceness: Int32 = 10

    /// The socket among those that the service manager opened that is the control socket.
    private static func controlSocket(_ sockets: [ActivatedSocket]) throws(CommandFailure) -> ActivatedSocket? {
        guard let socket = sockets.first(where: { $0.name == ServiceUnits.socketName }) ?? sockets.first else {
            return nil
        }
        guard socket.path != nil else {
            throw CommandFailure(
                "flusher: \(socket.name): not a listening stream socket with a path; see ListenStream="
            )
        }
        return socket
    }

    /// Lets whoever writes to a mount, or works beside it, have the processor first.
    ///
    /// Threads inherit it, so this comes before the first of them.
    private static func yieldToOthers() {
        let own = __priority_which_t(PRIO_PROCESS.rawValue)
        if getpriority(own, 0) < niceness { _ = setpriority(own, 0, niceness) }
        // The disk serves it only when nobody else wants anything, where the kernel's scheduler knows of that.
        _ = moorage_set_io_priority(3, 7)
    }
}

/// Makes the stores of all volumes on one transport, which is started with the first of them: not before the
/// flusher has directed its signals.
private final class VolumeStores: Sendable {
    private let transport = Lock<CurlTransport?>(nil)
    private let instance: Instance
    private let bandwidth: SharedBandwidth?
    private let rules: TrafficRules

    init(_ instance: Instance, _ bandwidth: SharedBandwidth?, _ rules: TrafficRules) {
        self.instance = instance
        self.bandwidth = bandwidth
        self.rules = rules
    }

    func make(_ volume: VolumeDescription, _ credentials: HandedCredentials?) throws(StoreError) -> any ObjectStore {
        var environment = ProcessEnvironment.all()
        if let credentials {
            environment["AWS_ACCESS_KEY_ID"] = credentials.accessKeyID
            environment["AWS_SECRET_ACCESS_KEY"] = credentials.secretAccessKey
            environment["AWS_SESSION_TOKEN"] = credentials.sessionToken
        }
        return try volume.store(
            environment: environment,
            transport: try sharedTransport(),
            instance: instance,
            scratchOwner: instance.directories.places(of: volume).owner
        )
    }

    /// The machine's network is another one than before, or the machine slept.
    func renewConnections() {
        transport.withLock { $0 }?.networkChanged()
    }

    private func sharedTransport() throws(StoreError) -> CurlTransport {
        try transport.withLock { transport throws(StoreError) in
            if let transport { return transport }
            do {
                var configuration = TransportConfiguration()
                configuration.bandwidth = bandwidth
                configuration.trafficRules = rules
                configuration.trafficClass = .background
                let made = try CurlTransport(configuration: configuration)
                transport = made
                return made
            } catch {
                throw StoreError(.temporary, "\(error)")
            }
        }
    }
}
