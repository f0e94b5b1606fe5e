// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Glibc
internal import Platform

/// Where the files of a catalog are, and the mark that says that they are not to be believed.
///
/// Who goes on in memory deletes the files, as they lack what is learned from then on. Where that fails, as on a file
/// system that can only be read since its disk has failed, others would go on believing them, also after the next start
/// of the machine. The mark is that deletion, still to be done: who finds it does it first, or goes on in memory too.
/// It names no file, as devices have other numbers after a start, and inodes are used again: that a newer file is
/// deleted at times costs a listing, that an older one is not would hide what was sent.
struct CatalogFiles: Sendable {
    let path: String
    /// Not on the cache's disk, which is what fails; nil: nobody asks for one.
    private let mark: String?
    private let unlink: @Sendable (String) -> Void

    init(directory: String, marks: String?, unlink: (@Sendable (String) -> Void)? = nil) {
        path = "\(directory)/catalog.sqlite"
        mark = marks.map { "\($0)/catalog.distrusted" }
        self.unlink = unlink ?? { _ = Glibc.unlink($0) }
    }

    private var all: [String] { ["", "-wal", "-shm"].map { path + $0 } }

    /// Device and inode of each of them; nil when one of them is not there.
    var identity: [UInt64]? {
        var identity: [UInt64] = []
        for file in all {
            guard let status = try? FileStatus.of(file) else { return nil }
            identity += [status.device, status.inode]
        }
        return identity
    }

    /// Whether one of them is there, for all that can be known.
    var mayExist: Bool {
        all.contains { file in
            do throws(SystemError) { return try FileStatus.of(file) != nil } catch { return true }
        }
    }

    /// Whether they are marked.
    ///
    /// A mark that cannot be looked for counts as none: it is beside the journal, without which nothing works.
    var areDistrusted: Bool {
        guard let mark else { return false }
        return (try? FileStatus.of(mark)) != nil
    }

    /// Deletes the files; who has them open keeps them, without the names.
    func remove() { all.forEach(unlink) }

    /// Deletes the files, which lack what is learned from here on, or marks them.
    func disown() {
        if removeForGood() || areDistrusted { return }
        guard let mark else { return }
        do throws(SystemError) {
            _ = try FileDescriptor.open(mark, O_WRONLY | O_CREAT | O_NOFOLLOW)
            // The journal soon forgets what only the catalog would have known.
            try Files.synchronizeDirectory(Files.parent(of: mark))
            Log.warning("catalog", "\(path) is out of date and cannot be deleted; \(mark) says so")
        } catch {
            Log.error("catalog", "\(path) is out of date and can be neither deleted nor marked: \(error)")
        }
    }

    /// Does the deletion that a mark stands for, and takes the mark away; throws while one of the two cannot be done.
    ///
    /// In this order, and before a new file is begun: otherwise others would believe the old one, or delete the new one.
    func settle() throws(DatabaseError) {
        guard let mark, areDistrusted else { return }
        guard removeForGood() else {
            // Another process was faster, and what is there now is its new file.
            guard areDistrusted else { return }
            throw DatabaseError(.readOnly, "\(path) is out of date, as \(mark) says, and cannot be deleted")
        }
        do throws(SystemError) {
            try Files.removeIfPresent(mark)
        } catch {
            throw DatabaseError(system: error)
        }
        Log.notice("catalog", "\(path) was out of date; starting anew")
    }

    /// Deletes the files; whether they stay deleted, which a file system may forget that stops before it is synced.
    private func removeForGood() -> Bool {
        remove()
        guard !mayExist else { return false }
        do throws(SystemError) {
            try Files.synchronizeDirectory(Files.parent(of: path))
            return true
        } catch {
            // No folder, or one of a file system that knows no such thing.
            return [ENOENT, ENOTDIR, EINVAL].contains(error.code)
        }
    }
}
