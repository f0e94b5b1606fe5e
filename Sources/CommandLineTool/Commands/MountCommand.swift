// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import FuseBridge
internal import Glibc
internal import Platform
internal import Synchronization

/// `moorage mount`: a bucket as a folder.
enum MountCommand {
    static let definition = CommandDefinition(
        name: "mount",
        operands: "REMOTE MOUNTPOINT",
        operandCount: 2...2,
        flags: [
            FlagDefinition("o", "OPT[,OPT...]", "settings, see below"),
            FlagDefinition("foreground", nil, "stay in the foreground"),
            FlagDefinition("json", nil, "print one JSON document when it is mounted"),
            FlagDefinition("ready-fd", "NUMBER", ""),
        ],
        summary:
            "mount a bucket, s3://BUCKET[/PREFIX], a web server's folder, http(s)://HOST/PATH/, or a section of the "
            + "configuration file",
        details: OptionDocumentation.help()
    ) { arguments throws(CommandFailure) in
        let instance = try Instance.current()
        let mountpoint = AbsolutePath.resolvedFolder(arguments.operands[1])
        let request: MountRequest
        do throws(ConfigurationError) {
            request = try MountRequest(
                remote: arguments.operands[0],
                mountpoint: mountpoint,
                options: arguments.values("o"),
                instance: instance,
                environment: ProcessEnvironment.all()
            )
        } catch {
            throw .usage("mount: \(error.description)")
        }
        if request.values.flag(.allowOther), !Mountpoint.mayLetOthersIn {
            throw CommandFailure("mount: allow_other: needs a line user_allow_other in /etc/fuse.conf")
        }
        let ready = arguments.value("ready-fd").flatMap { Int32($0) }
        let json = arguments.has("json")
        if arguments.has("foreground") { return try serve(request, instance, ready, json: json) }
        try Mountpoint.check(mountpoint)
        let launcher = MountLauncher(
            request: request,
            options: arguments.values("o"),
            directories: instance.directories
        )
        let warnings = [try launcher.launch(), instance.lingerWarning()].compactMap(\.self)
        for warning in warnings { Console.note(warning) }
        if json { try tell(request, instance, warnings) }
        return 0
    }

    private static func tell(
        _ request: MountRequest,
        _ instance: Instance,
        _ warnings: [String]
    ) throws(CommandFailure) {
        let report = MountReport(request.volume, at: request.mountpoint, instance.directories, warnings: warnings)
        Console.bytes(try document(report))
    }

    private static func serve(
        _ request: MountRequest,
        _ instance: Instance,
        _ ready: Int32?,
        json: Bool
    ) throws(CommandFailure) -> Int32 {
        Log.keepShort(LogFile(instance.directories.mountLog(request.volume.id)))
        LostPage.tellOfIt()
        let parent = Parent(descriptor: ready)
        do throws(CommandFailure) {
            try takeSignals(request, parent)
            try Mountpoint.check(request.mountpoint)
            try MountProcess(request: request, instance: instance).run { note in
                // Whoever asked for the mount was interrupted and does not know that it came about: it ends as it began.
                if !parent.ready(note) { kill(getpid(), SIGTERM) }
                if json { try? tell(request, instance, [note].compactMap(\.self)) }
            }
            return 0
        } catch {
            parent.failed(error)
            throw error
        }
    }
}

extension MountCommand {
    /// A signal that comes before anything is mounted ends the process at once, as SIGKILL may at any time.
    ///
    /// Call it before any thread starts: they inherit the mask.
    private static func takeSignals(_ request: MountRequest, _ parent: Parent) throws(CommandFailure) {
        let failure = CommandFailure("mount: \(request.mountpoint): interrupted")
        do throws(SystemError) {
            try StopSignals.take {
                parent.failed(failure)
                Console.note(failure.message)
                _exit(failure.status)
            }
        } catch {
            throw CommandFailure("mount: \(error)")
        }
    }
}

/// The command that started this process, which hears once how the mount went.
private final class Parent: Sendable {
    private let pipe: Mutex<ReadinessPipe?>

    init(descriptor: Int32?) {
        pipe = Mutex(ReadinessPipe(descriptor: descriptor))
    }

    /// False when it is gone.
    func ready(_ note: String?) -> Bool {
        let pipe = pipe.withLock { $0.take() }
        guard let pipe else { return true }
        return pipe.ready(note: note)
    }

    func failed(_ failure: CommandFailure) {
        let pipe = pipe.withLock { $0.take() }
        if let pipe { pipe.failed(failure) }
    }
}
