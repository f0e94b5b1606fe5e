// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
package import Configuration
package import Control
internal import Database
internal import Journal

/// Answers `status` and `uploads` from the journals alone, when no flusher runs.
package struct JournalStatusReader: Sendable {
    private let directories: Directories

    package init(directories: Directories) {
        self.directories = directories
    }

    /// The status, with the flusher said not to run.
    package func status() -> StatusReport {
        let volumes = VolumeDescription.all(in: directories).volumes.map { description in
            var report = VolumeReport.empty(description, directories.places(of: description))
            do throws(JournalError) {
                let counts = try Journal(directory: directories.places(of: description).state).counts()
                report.pending = VolumeReport.Pending(files: counts.total, bytes: counts.bytes)
                report.conflicts = counts.conflicts
                report.attention = counts.attention
            } catch {
                report.error = error.description
            }
            return report
        }
        return StatusReport(flusher: FlusherReport(running: false, pid: nil), conditions: [:], volumes: volumes)
    }

    /// The uploads of a selection; volumes that cannot be read are left out.
    package func uploads(_ selection: UploadSelection) -> [UploadReport] {
        VolumeDescription.all(in: directories).volumes.flatMap { description in
            guard selection.volumes.isEmpty || selection.volumes.contains(description.id) else {
                return [UploadReport]()
            }
            let directory = directories.places(of: description).state
            guard let journal = try? Journal(directory: directory), let transfers = try? journal.transfers(),
                let nodes = try? journal.pendingNodes(limit: 100_000)
            else { return [] }
            return nodes.filter { selection.means($0, in: description.id) }.map { node in
                let own = transfers.last {
                    $0.transfer.node == node.id && $0.transfer.generation == node.generation?.id
                }
                return UploadReport(node, volume: description.id, transfer: own?.transfer)
            }
        }
    }
}
