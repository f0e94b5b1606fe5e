// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration
internal import Control
internal import Database
internal import Journal

/// The document of `mount --json` and of `unmount --json` without `--wait`.
struct MountReport: Encodable, Sendable {
    /// The volume's ID as in `status --json`; null for a mount of another user or instance.
    var volume: String?
    /// What is or was mounted; null where `volume` is.
    var remote: String?
    var mountpoint: String
    /// What is not remote yet; null where that cannot be read.
    var pending: VolumeReport.Pending?
    /// What a person should know; the same is told on standard error or, in the foreground, in the log.
    var warnings: [String]

    /// Looks into the volume's journal, which nobody needs to be asked for.
    init(_ volume: VolumeDescription?, at mountpoint: String, _ directories: Directories, warnings: [String] = []) {
        self.volume = volume?.id
        self.remote = volume?.remote
        self.mountpoint = mountpoint
        self.warnings = warnings
        guard let volume else { return }
        do throws(JournalError) {
            let counts = try Journal(directory: directories.places(of: volume).state).counts()
            pending = VolumeReport.Pending(files: counts.total, bytes: counts.bytes)
        } catch {
            self.warnings.append(error.description)
        }
    }

    private enum CodingKeys: String, CodingKey {
        case volume, remote, mountpoint, pending, warnings
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(volume, forKey: .volume)
        try container.encode(remote, forKey: .remote)
        try container.encode(mountpoint, forKey: .mountpoint)
        try container.encode(pending, forKey: .pending)
        try container.encode(warnings, forKey: .warnings)
    }
}
