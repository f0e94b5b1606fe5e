// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Catalog
internal import Configuration
internal import Control
internal import Database
internal import Journal
internal import ObjectStore
internal import Platform
internal import Policy

extension Engine {
    /// Whether the journal of any volume is where it was; with `state_dir` that may be anywhere.
    var hasJournals: Bool {
        let folders = state.inspect { $0.volumes.values.map(\.session.places.state) }
        return folders.contains { folder in
            do throws(SystemError) {
                return try FileStatus.of(folder) != nil
            } catch {
                return true
            }
        }
    }

    /// Opens volumes that are new, and takes in descriptions that changed.
    func scanVolumes() {
        scanning.withLock { _ in scanVolumesAlone() }
    }

    private func scanVolumesAlone() {
        let (volumes, damaged) = VolumeDescription.all(in: options.directories)
        for problem in damaged { Log.warning("flusher", problem) }
        state.inspect { $0.forgetRecoveries(besides: volumes) }
        for description in volumes {
            let known = state.inspect { $0.volumes[description.id]?.session }
            let isSetAside = known?.journal.isSetAside ?? false
            if known?.description == description, !isSetAside { continue }
            if known != nil, !isIdle(description.id) { continue }
            if isSetAside { close(description.id) }
            service.duringLongWork { open(description) }
        }
    }

    /// Whether nothing of a volume runs, so that it can be opened anew.
    private func isIdle(_ id: String) -> Bool {
        state.inspect { state in
            !state.jobs.keys.contains { $0.volume == id } && state.volumes[id]?.isProbing != true
                && state.maintained != id && state.adopters[id, default: 0] == 0
        }
    }

    /// Forgets a volume whose journal a mount set aside.
    private func close(_ id: String) {
        state.update { state in
            state.scheduler.removeVolume(id)
            state.volumes[id] = nil
        }
    }

    /// Opens a volume, recovering it first when no mount holds it.
    private func open(_ description: VolumeDescription) {
        let places = options.directories.places(of: description)
        do throws(DatabaseError) {
            guard let journal = try openJournal(places) else { return waitForRecovery(of: description) }
            let session = try VolumeSession(
                description: description,
                places: places,
                journal: journal,
                catalog: openCatalog(places),
                cache: openCache(description, places),
                readerPatience: options.readerPatience
            )
            connect(session, credentials: state.inspect { $0.credentials[description.id] ?? $0.credentials[nil] })
            let now = Timestamp.now()
            state.update { state in
                var volume = Volume(session: session, overrides: state.policy.overrides.values, now: now)
                volume.handed = state.credentials[description.id] ?? state.credentials[nil]
                if let old = state.volumes[description.id] {
                    volume.facts = old.facts
                    volume.interface = old.interface
                    volume.departed = old.departed
                    // Numbers of rules would mean others.
                    if volume.rules.hasPatterns(of: old.rules) {
                        volume.rules = old.rules.with(description)
                    } else {
                        state.scheduler.removeVolume(description.id)
                    }
                }
                volume.facts.held = state.held(by: volume, now: now)
                volume.probeIfClosed()
                state.failed[description.id] = nil
                state.unrecovered.remove(description.id)
                state.volumes[description.id] = volume
                state.scheduler.setFacts(volume.facts, settings: volume.settings, of: description.id, now: now)
            }
            Log.info("flusher", "opened \(description.remote)")
            tellGate(of: description.id)
            noteOtherRoutes()
        } catch {
            Log.error("flusher", "\(description.remote): \(error)")
            state.update { state in
                state.failed[description.id] = error.description
                state.unrecovered.remove(description.id)
            }
        }
    }

    private func waitForRecovery(of description: VolumeDescription) {
        Log.info("flusher", "\(description.remote): a mount is bringing the journal in order")
        state.update { state in
            state.scanAt = min(state.scanAt, monotonicSeconds() + 1)
            // As it was, it may still be open.
            guard state.volumes[description.id] == nil else { return }
            state.unrecovered.insert(description.id)
            state.failed[description.id] = "a mount is bringing its journal in order; try again"
        }
    }

    /// Nil while a mount is bringing the journal in order: rows that others are meant to go with may be missing.
    private func openJournal(_ places: VolumePlaces) throws(DatabaseError) -> Journal? {
        let lock: FileLock?
        do throws(SystemError) {
            lock = try FileLock(acquiring: places.mountLock)
        } catch {
            // No folder yet, or no right to it: opening the journal says it better.
            lock = nil
        }
        guard lock != nil else {
            let journal = try Journal(directory: places.state)
            let token = FileLock.holder(of: places.mountLock).token
            return try journal.isRecovered(byHolder: token) ? journal : nil
        }
        let (journal, report) = try Journal.recovering(directory: places.state)
        if report.isNotable { Log.warning("flusher", "recovered \(places.state): \(report.items.count) items") }
        return journal
    }

    private func openCatalog(_ places: VolumePlaces) -> any CatalogSink {
        do throws(DatabaseError) {
            return CatalogAdapter(catalog: try Catalog(directory: places.cache, marks: places.state))
        } catch {
            Log.warning("flusher", "no catalog in \(places.cache): \(error)")
            return NoCatalog()
        }
    }

    private func openCache(_ description: VolumeDescription, _ places: VolumePlaces) -> BlockCache {
        let cacheOptions = BlockCache.Options(
            directory: places.blocks,
            blockSize: description.blockSize,
            capacity: description.cacheSize,
            minimumFree: description.cacheFree
        )
        return BlockCache(options: cacheOptions, source: CachedOnly())
    }

    /// Makes the way to the remote; without one the volume waits.
    func connect(_ session: VolumeSession, credentials: HandedCredentials?) {
        do throws(StoreError) {
            session.store = try makeStore(session.description, credentials)
        } catch {
            Log.warning("flusher", "\(session.description.remote): \(error)")
            session.store = nil
            let cause = error
            observe(session.id) { volume, now in
                volume.trouble = cause.message
                volume.facts.authentication.observe(.refused, source: "credentials", at: now)
            }
        }
    }

    /// Changes what is known of a volume, and looks at its rows again when a fact is another one than before.
    func observe(_ id: String, _ body: (inout Volume, Timestamp) -> Void) {
        let change: (isNew: Bool, isOpen: Bool, text: String?)? = state.inspect { state in
            guard var volume = state.volumes[id] else { return nil }
            let before = volume.facts
            let now = Timestamp.now()
            body(&volume, now)
            volume.probeIfClosed()
            state.volumes[id] = volume
            guard !before.says(as: volume.facts) else { return nil }
            state.scheduler.setFacts(volume.facts, settings: volume.settings, of: id, now: now)
            return (before.isOpen != volume.facts.isOpen, volume.facts.isOpen, volume.event(before))
        }
        guard let change else { return }
        if let text = change.text { Log.notice("flusher", text) }
        // Rows may have become ready: the workers look again.
        state.update { _ in }
        if change.isNew { publish(.reachable(volume: id, isReachable: change.isOpen)) }
    }
}

extension Volume {
    /// The one line that is told of a change of the way to the remote; nil when it was told otherwise.
    fileprivate func event(_ before: VolumeFacts) -> String? {
        guard before.isOpen != facts.isOpen else { return nil }
        let remote = session.description.remote
        if facts.isOpen { return "\(remote): it answers again, uploads go on" }
        let isRefused = facts.authentication.value == .refused
        // Where the machine itself has no way out, that was told.
        if !isRefused, facts.holds.contains(where: { $0.reason == .offline }) { return nil }
        return
            "\(remote): uploads wait: \(isRefused ? "auth" : facts.connection.value.rawValue)\(trouble.map { ": \($0)" } ?? "")"
    }
}

extension VolumeFacts {
    /// Whether requests may be sent.
    var isOpen: Bool { !isAway && authentication.value != .refused }

    /// Whether nobody answers, or somebody else.
    var isAway: Bool { connection.value == .offline || connection.value == .portal }

    /// Takes in that a request did not get through.
    mutating func lose(_ error: StoreError, source: String, at now: Timestamp) {
        let isPortal = error.code == StoreError.captivePortal
        connection.observe(isPortal ? .portal : .offline, source: source, at: now)
    }

    /// Whether all facts have the same values as others, so that rows wait for the same reasons.
    fileprivate func says(as other: VolumeFacts) -> Bool {
        connection.value == other.connection.value && authentication.value == other.authentication.value
            && hasDiskSpace.value == other.hasDiskSpace.value
    }
}

/// Stands in where the catalog cannot be opened: the mount then asks the remote.
private struct NoCatalog: CatalogSink {
    func committed(
        _ path: ObjectKey,
        version: ObjectVersion,
        attributes: FileAttributes?,
        others: OtherMetadata,
        target: ObjectKey?,
        generation: GenerationID?,
        source: (path: ObjectKey, version: ObjectVersion)?
    ) {}
    func removed(_ path: ObjectKey) {}
    func committedDirectory(_ path: ObjectKey, attributes: FileAttributes, others: OtherMetadata) {}
    func removedDirectory(_ path: ObjectKey) {}
    func found(_ path: ObjectKey, _ status: ObjectStatus?, since moment: CatalogToken?) {}
    func moment() -> CatalogToken? { nil }
    func known(_ path: ObjectKey) -> CatalogEntry? { nil }
}

extension Engine.State {
    /// What is no volume any more does not wait for a mount.
    fileprivate mutating func forgetRecoveries(besides volumes: [VolumeDescription]) {
        for id in unrecovered where !volumes.contains(where: { $0.id == id }) {
            unrecovered.remove(id)
            failed[id] = nil
        }
    }
}
