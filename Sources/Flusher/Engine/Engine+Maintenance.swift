// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Configuration
internal import Database
internal import Journal
internal import ObjectStore
internal import Platform
internal import Policy
internal import Synchronization

extension Engine {
    /// Ends transfers nobody wants, gives finished content to the cache, recovers what a dead mount left open.
    func maintain() {
        while !isStopping {
            _ = state.wait(timeout: 1) { state in
                state.isStopping || state.maintainAt <= monotonicSeconds() ? true : nil
            }
            state.inspect { state in
                let isSpaceAwaited = state.volumes.values.contains { !$0.facts.hasDiskSpace.value }
                state.maintainAt = monotonicSeconds() + (isSpaceAwaited ? 1 : 5)
            }
            for session in state.inspect({ $0.volumes.values.map(\.session) }) where !isStopping {
                state.inspect { $0.maintained = session.id }
                defer { state.inspect { $0.maintained = nil } }
                release(session)
                removeOrphans(session)
                if state.inspect({ $0.volumes[session.id]?.facts.isOpen ?? false }) { cleanUp(session) }
                sweep(session)
                forgetDoubts(session)
                recover(session)
                synchronize(session)
                checkDisk(session)
            }
        }
        for session in state.inspect({ $0.volumes.values.map(\.session) }) { release(session) }
    }

    /// Forgets the requests that can be carried out no more.
    private func forgetDoubts(_ session: VolumeSession) {
        do throws(JournalError) {
            try session.journal.forgetDoubts(endedBefore: .now())
        } catch {
            Log.error("flusher", "\(session.description.remote): \(error)")
        }
    }

    /// Does the group sync of a volume whose mount died before its own.
    private func synchronize(_ session: VolumeSession) {
        guard !FileLock.holder(of: session.places.mountLock).isHeld else { return }
        do throws(JournalError) {
            try session.journal.synchronizeSealed()
            try session.journal.completeChecksums()
        } catch {
            Log.error("flusher", "\(session.description.remote): closed files could not be synced: \(error)")
        }
    }

    private func release(_ session: VolumeSession) {
        do throws(JournalError) {
            try session.adoptFinished()
            if session.hasLeftFiles.exchange(false, ordering: .relaxed) {
                state.inspect { $0.volumes[session.id]?.mayHaveOrphans = true }
            }
            session.cache.maintain()
        } catch {
            Log.error("flusher", "\(session.description.remote): \(error)")
        }
    }

    /// Deletes the files that an earlier flusher was about to delete when it was killed.
    private func removeOrphans(_ session: VolumeSession) {
        guard state.inspect({ $0.volumes[session.id]?.mayHaveOrphans ?? false }) else { return }
        do throws(JournalError) {
            guard try session.journal.removeOrphans() != nil else { return }
            state.inspect { $0.volumes[session.id]?.mayHaveOrphans = false }
        } catch {
            Log.warning("flusher", "\(session.description.remote): files of finished content stay for now: \(error)")
        }
    }

    /// Ends the transfers that no row wants in their form.
    private func cleanUp(_ session: VolumeSession) {
        guard let store = session.store else { return }
        guard !session.idleTransfers.isEmpty else {
            return state.inspect { $0.volumes[session.id]?.unwanted = 0 }
        }
        let entries: [(transfer: Transfer, fate: TransferFate)]
        do throws(JournalError) {
            entries = try session.journal.transfers()
        } catch {
            return Log.error("flusher", "\(session.description.remote): \(error)")
        }
        var unwanted = 0
        for entry in entries where !isStopping {
            switch entry.fate {
            // The row itself finishes an upload to the path it had before.
            case .wanted, .moved: continue
            case .superseded, .gone:
                if !end(entry.transfer, session, store) { unwanted += 1 }
            }
        }
        let count = unwanted
        state.inspect { $0.volumes[session.id]?.unwanted = count }
    }

    private func end(_ transfer: Transfer, _ session: VolumeSession, _ store: any ObjectStore) -> Bool {
        guard session.claim(transfer.id) else { return false }
        defer { session.release(transfer.id) }
        let settings = WorkSettings.unattended(gate: gate, host: options.host)
        let row = RowID(volume: session.id, node: transfer.node.value)
        let work = RowWork(
            session: session,
            store: store,
            job: RunningJob(row: row, path: transfer.key),
            settings: settings
        )
        do throws(WorkFailure) {
            guard let current = session.transfer(transfer.id) else { return true }
            try TransferCleanup(work: work).settle(current)
            return true
        } catch {
            Log.info("flusher", "\(transfer.key): an upload nobody wants is not ended yet: \(error)")
            return false
        }
    }

    /// Brings files back to what was acknowledged when the mount that wrote them died.
    private func recover(_ session: VolumeSession) {
        let isDue = state.inspect { state in
            guard let volume = state.volumes[session.id], volume.hasOpenRows else { return false }
            let now = monotonicSeconds()
            guard volume.recoverAt <= now else { return false }
            state.volumes[session.id]?.recoverAt = now + 3
            return true
        }
        guard isDue, !FileLock.holder(of: session.places.mountLock).isHeld else { return }
        do throws(SystemError) {
            guard let lock = try FileLock(acquiring: session.places.mountLock) else { return }
            recoverLocked(session, lock)
        } catch {
            Log.error("flusher", "\(session.description.remote): \(error)")
        }
    }

    private func recoverLocked(_ session: VolumeSession, _ lock: borrowing FileLock) {
        do throws(JournalError) {
            guard try session.journal.hasOpenNodes() else {
                return state.inspect { $0.volumes[session.id]?.hasOpenRows = false }
            }
            Log.notice("flusher", "\(session.description.remote): the mount ended with open files; recovering them")
            let (_, report) = try Journal.recovering(directory: session.places.state)
            for item in report.items { Log.notice("flusher", "\(item.path?.string ?? "?"): \(item.outcome)") }
            state.update { state in
                state.volumes[session.id]?.hasOpenRows = false
                state.volumes[session.id]?.reloadAt = 0
                state.volumes[session.id]?.refreshAt = 0
                // The database is another file now: open it anew.
                if report.salvagedFrom != nil {
                    state.scheduler.removeVolume(session.id)
                    state.volumes[session.id] = nil
                    state.scanAt = 0
                }
            }
        } catch {
            Log.error("flusher", "\(session.description.remote): \(error)")
        }
    }

    private func checkDisk(_ session: VolumeSession) {
        let waiting = state.inspect { state in
            state.volumes[session.id].flatMap { $0.facts.hasDiskSpace.value ? nil : $0.space }
        }
        guard let waiting, let free = try? Files.freeSpace(at: session.places.state),
            waiting.isOver(free: free, at: monotonicSeconds())
        else { return }
        observe(session.id) { volume, now in volume.facts.hasDiskSpace.observe(true, source: "statvfs", at: now) }
    }
}
