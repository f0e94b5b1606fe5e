// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import BlockCache
internal import Configuration
internal import Control
internal import Database
internal import Flusher
internal import Journal
internal import Platform

/// What the files of a volume say when no flusher runs to ask.
enum JournalReader {
    /// The volume's line of `status`.
    static func report(_ volume: VolumeDescription, _ directories: Directories) -> VolumeReport {
        let places = directories.places(of: volume)
        let mountpoint = volume.currentMountpoint(directories)
        var report = VolumeReport(
            id: volume.id,
            remote: volume.remote,
            mountpoint: mountpoint,
            pending: VolumeReport.Pending(files: 0, bytes: 0),
            staging: VolumeReport.Staging(bytes: Files.occupiedBytes(in: places.state + "/staging")),
            uploading: VolumeReport.Uploading(files: 0, bytesDone: 0, bytesTotal: 0),
            conflicts: 0,
            cache: VolumeReport.Cache(
                bytes: CacheFolder.usedBytes(volume, places),
                limit: volume.cacheSize,
                note: places.cacheNote,
                isMounted: mountpoint != nil
            )
        )
        do throws(JournalError) {
            let counts = try Journal(directory: places.state).counts()
            report.pending = VolumeReport.Pending(files: counts.total, bytes: counts.bytes)
            report.conflicts = counts.conflicts
            report.attention = counts.attention
        } catch {
            report.error = error.description
        }
        return report
    }
}

/// A volume's block cache without a mount.
enum CacheFolder {
    static func open(_ volume: VolumeDescription, _ places: VolumePlaces) -> BlockCache {
        let options = BlockCache.Options(
            directory: places.blocks,
            blockSize: volume.blockSize,
            capacity: volume.cacheSize,
            minimumFree: volume.cacheFree
        )
        return BlockCache(options: options, source: nil)
    }

    /// What the cache takes on the disk, in bytes.
    static func usedBytes(_ volume: VolumeDescription, _ places: VolumePlaces) -> Int64 {
        let cache = open(volume, places)
        cache.measureAll()
        return cache.usedBytes
    }
}
