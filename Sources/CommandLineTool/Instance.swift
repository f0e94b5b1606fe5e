// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Bandwidth
internal import Base
internal import Configuration
internal import Control
internal import Platform

/// What every command begins with: this user's folders, settings and flusher.
struct Instance: Sendable {
    let directories: Directories
    let configuration: ConfigurationFile

    /// Reads the environment and the configuration file and checks the folders.
    static func current() throws(CommandFailure) -> Instance {
        do throws(ConfigurationError) {
            let directories = try Directories.current()
            try directories.prepare()
            return Instance(
                directories: directories,
                configuration: try ConfigurationFile(reading: directories.configuration)
            )
        } catch {
            throw CommandFailure(error.description)
        }
    }

    /// The bandwidth that all processes of this instance share; nil where that cannot be: then nothing is limited.
    func sharedBandwidth() -> SharedBandwidth? {
        do throws(SystemError) {
            return try SharedBandwidth(path: directories.bandwidth)
        } catch {
            Log.warning("bandwidth", "max_rate and max_download_rate do not count: \(error)")
            return nil
        }
    }

    var launcher: FlusherLauncher {
        FlusherLauncher(
            paths: ControlPaths(
                runtimeDirectory: directories.runtime,
                stateLock: directories.stateLock,
                socketNote: directories.socketNote,
                serviceSocket: directories.serviceSocket
            ),
            version: CommandLineTool.comparedVersion
        )
    }

    /// The volumes that were ever mounted here.
    func volumes() -> [VolumeDescription] {
        let found = VolumeDescription.all(in: directories)
        for message in found.damaged { Console.note(message) }
        return found.volumes
    }

    /// The same, the one that was mounted last first.
    func volumesByUse() -> [VolumeDescription] {
        let used = volumes().map { volume in
            let path = directories.places(of: volume).description
            return (volume, time: (try? FileStatus.of(path))?.map(\.modified.nanoseconds) ?? 0)
        }
        return used.sorted { $0.time > $1.time }.map(\.0)
    }

    /// The volume that is mounted at a path, else the one that was mounted there last.
    func volume(at mountpoint: String) -> VolumeDescription? {
        let candidates = volumesByUse().filter { $0.mountpoint == mountpoint }
        return candidates.first { $0.currentMountpoint(directories) != nil } ?? candidates.first
    }

    /// A connection to the flusher, which is started when none runs; it gets the credentials of our environment.
    func connect() throws(CommandFailure) -> ControlClient {
        do throws(ControlError) {
            return try connected()
        } catch {
            throw CommandFailure(flusher: error)
        }
    }

    /// Asks the flusher for something that changes nothing, and its successor where it ends before it has answered.
    func ask(_ question: ControlRequest) throws(CommandFailure) -> ControlReply {
        var attempts = 3
        while true {
            attempts -= 1
            do throws(ControlError) {
                return try connected().call(question)
            } catch {
                guard attempts > 0, error.isLossOfConnection else { throw CommandFailure(flusher: error) }
            }
        }
    }

    private func connected() throws(ControlError) -> ControlClient {
        let client = try launcher.connect(program: "command")
        if let credentials = HandedCredentials.ofEnvironment() {
            _ = try client.call(.credentials(volume: nil, credentials: credentials))
        }
        return client
    }

    /// A connection to the flusher, nil when none runs.
    func connectIfRunning() throws(CommandFailure) -> ControlClient? {
        do throws(ControlError) {
            return try launcher.connectIfRunning(program: "command")
        } catch {
            throw CommandFailure(flusher: error)
        }
    }
}

extension CommandFailure {
    init(flusher error: ControlError) {
        self.init("flusher: \(error.description)")
    }
}

extension HandedCredentials {
    /// The access keys of our environment, nil when it holds none.
    static func ofEnvironment() -> HandedCredentials? {
        guard let id = ProcessEnvironment.value("AWS_ACCESS_KEY_ID"),
            let secret = ProcessEnvironment.value("AWS_SECRET_ACCESS_KEY")
        else { return nil }
        return HandedCredentials(
            accessKeyID: id,
            secretAccessKey: secret,
            sessionToken: ProcessEnvironment.value("AWS_SESSION_TOKEN")
        )
    }
}
