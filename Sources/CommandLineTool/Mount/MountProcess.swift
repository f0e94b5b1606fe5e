// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Catalog
internal import Conditions
internal import Configuration
internal import Control
internal import CurlTransport
internal import FileSystem
internal import FuseBridge
internal import Glibc
internal import Journal
internal import ObjectStore
internal import Platform
internal import Stores

/// The process that serves a mount, in the foreground.
struct MountProcess {
    let request: MountRequest
    let instance: Instance

    private var volume: VolumeDescription { request.volume }

    /// Mounts, calls `onReady` with a note for people, and returns when the file system is unmounted.
    func run(onReady: @escaping @Sendable (String?) -> Void) throws(CommandFailure) {
        FileDescriptor.raiseLimit()
        let places = instance.directories.places(of: volume)
        let wasKnown = try prepare(places)
        let lock = try lock(places)
        defer { lock.release() }
        let watcher = NetworkWatcher()
        defer { watcher.stop() }
        // Uploads of before go on meanwhile, which begin when the journal is in order.
        let known = wasKnown ? try openJournal(places, lock) : nil
        let remote = try connect(watcher)
        let note = try check(remote, wasKnown: wasKnown)
        // Not before: with settings that the remote refuses, uploads are not to go on.
        try save(places)
        let journal = if let known { known } else { try openJournal(places, lock) }
        do {
            let catalog = try Catalog(directory: places.cache, marks: places.state)
            if remote.store is HTTPStore { try catalog.forgetWeakVersions(prefix: HTTPStore.weakTagPrefix) }
            let cache = BlockCache(options: cacheOptions(places), source: remote)
            (remote.store as? HTTPStore)?.tellOfDisk { [weak cache] in cache?.noteWholeFile($0) }
            let link = try FlusherLink(
                launcher: instance.launcher,
                volume: volume.id,
                credentials: HandedCredentials.ofEnvironment(),
                onPolicy: { cache.setThrifty($0.sparesNetwork) },
                onEvent: { event in
                    if case .reachable(_, true) = event { remote.becameReachable() }
                }
            )
            defer { link.close() }
            let fileSystem = FileSystem(
                options: fileSystemOptions(),
                remote: remote,
                journal: journal,
                catalog: catalog,
                cache: cache,
                pins: PinStore(path: places.pins),
                onChange: { link.wake() },
                onReschedule: { link.reread() },
                uploadState: { [launcher = instance.launcher, id = volume.id] path in
                    UploadState(of: path, in: id, launcher)
                },
                send: { path throws(FileError) in try link.send(path) }
            )
            let session = try MountSession(options: mountOptions(), fileSystem: fileSystem)
            try session.run { onReady(note) }
        } catch {
            throw CommandFailure("mount: \(request.mountpoint): \(error)")
        }
    }

    // MARK: Local state

    /// Makes the folders and notes what the flusher needs; tells whether the volume was mounted here before.
    private func prepare(_ places: VolumePlaces) throws(CommandFailure) -> Bool {
        do throws(ConfigurationError) {
            try places.prepare()
        } catch {
            throw CommandFailure("mount: \(error.description)")
        }
        do throws(SystemError) {
            // A damaged one is written anew.
            return try FileStatus.of(places.description) != nil
        } catch {
            throw CommandFailure("mount: \(error)")
        }
    }

    private func lock(_ places: VolumePlaces) throws(CommandFailure) -> HeldLock {
        do throws(SystemError) {
            // A flusher that opens the volume holds the lock for the moment of a recovery: that is no mount. Nor is a
            // process whose mount is gone: umount(8) returns before it has ended.
            let end = monotonicSeconds() + 15
            repeat {
                if let lock = try FileLock(acquiring: places.mountLock, tellsToken: true) { return HeldLock(lock) }
                usleep(20_000)
            } while monotonicSeconds() < end && (isHeldByFlusher(places) || isUnmounted(places))
        } catch {
            throw CommandFailure("mount: \(places.mountLock): \(error.reason)")
        }
        let pid = FileLock.holder(of: places.mountLock).pid.map { " by process \($0)" } ?? ""
        let place = (try? VolumeDescription(loading: places.description))?.mountpoint.map { " at \($0)" } ?? ""
        throw CommandFailure(
            "mount: \(request.remote): mounted already\(place)\(pid); unmount it there first, a volume is mounted once"
        )
    }

    private func isHeldByFlusher(_ places: VolumePlaces) -> Bool {
        let holder = FileLock.holder(of: places.mountLock)
        let locks = [instance.directories.stateLock, instance.directories.flusherLock]
        return !holder.isHeld || locks.contains { holder.pid == FileLock.holder(of: $0).pid }
    }

    /// Whether the mount that was noted last is not there any more, as far as this process sees mounts.
    private func isUnmounted(_ places: VolumePlaces) -> Bool {
        guard let last = (try? VolumeDescription(loading: places.description))?.mountpoint else { return false }
        return !MountTable.isMoorage(at: last)
    }

    /// Notes the volume's settings for the flusher.
    private func save(_ places: VolumePlaces) throws(CommandFailure) {
        do throws(ConfigurationError) {
            try volume.save(to: places.description)
        } catch {
            throw CommandFailure("mount: \(places.state): \(error)")
        }
    }

    private func openJournal(_ places: VolumePlaces, _ lock: HeldLock) throws(CommandFailure) -> Journal {
        do throws(JournalError) {
            let (journal, report) = try Journal.recovering(directory: places.state, holder: lock.token)
            for item in report.items {
                Log.warning("recovery", "\(item.path?.string ?? "a file of unknown name"): \(item.outcome)")
            }
            if let folder = report.salvagedFrom {
                Log.error("recovery", "the journal was damaged; the old one is in \(folder)")
            }
            return journal
        } catch {
            throw CommandFailure("mount: \(places.state): \(error)")
        }
    }

    // MARK: The remote

    private func connect(_ watcher: NetworkWatcher) throws(CommandFailure) -> Remote {
        do {
            var configuration = volume.transportConfiguration
            configuration.bandwidth = instance.sharedBandwidth()
            let transport = try CurlTransport(configuration: configuration)
            let environment = ProcessEnvironment.all()
            let store = try volume.store(environment: environment, transport: transport, instance: instance)
            let remote = Remote(store: store)
            try watcher.start {
                transport.networkChanged()
                remote.networkChanged()
            }
            return remote
        } catch {
            throw CommandFailure("mount: \(request.remote): \(error)")
        }
    }

    /// Refuses a remote that cannot be used; one that does not answer is no obstacle to a volume known before.
    private func check(_ remote: Remote, wasKnown: Bool) throws(CommandFailure) -> String? {
        do throws(StoreError) {
            try remote.store.check()
            guard let web = remote.store as? HTTPStore, !web.canList else { return nil }
            return "\(request.remote) does not tell what it holds: its files can be opened by their paths, not listed"
        } catch {
            guard error.cause == .unreachable || error.cause == .temporary, wasKnown else {
                let isAway = error.cause == .unreachable || error.cause == .temporary
                let wait = isAway ? "; the first mount of a volume needs its server" : ""
                throw CommandFailure("mount: \(request.remote): \(error.advised(for: volume))\(wait)")
            }
            return "\(request.remote) does not answer (\(error)); mounted with what is known locally"
        }
    }

    // MARK: Options

    private func cacheOptions(_ places: VolumePlaces) -> BlockCache.Options {
        var options = BlockCache.Options(
            directory: places.blocks,
            blockSize: volume.blockSize,
            capacity: volume.cacheSize,
            minimumFree: volume.cacheFree,
            note: places.cacheNote
        )
        options.takesSnapshots = request.values.flag(.readOnly) && PassthroughAbility.isPermitted
        if let readahead = request.values.number(.readahead) { options.readahead.maximumWindow = readahead }
        return options
    }

    private func fileSystemOptions() -> FileSystemOptions {
        let values = request.values
        var options = FileSystemOptions(uid: getuid(), gid: getgid())
        options.isReadOnly = values.flag(.readOnly)
        if let uid = values.number(.uid) { options.uid = UInt32(uid) }
        if let gid = values.number(.gid) { options.gid = UInt32(gid) }
        if let mask = values.number(.umask) { options.umask = UInt32(mask) }
        options.metadataAge = volume.metadataAge
        // What a web server lists has no size until it was asked for.
        options.usesServerModificationTime = values.flag(.serverModificationTime) && volume.url == nil
        if !volume.prefix.isEmpty { options.longestPath -= volume.prefix.utf8.count + 1 }
        if let age = values.seconds(.kernelAge) { options.kernelAge = age }
        options.syncsToRemote = values.text(.fsync) == "remote"
        options.closesToRemote = values.text(.close) == "remote"
        options.stagingLimit = values.number(.stagingLimit)
        if let wait = values.seconds(.stagingWait) { options.stagingWait = wait }
        return options
    }

    private func mountOptions() -> MountOptions {
        MountOptions(
            mountpoint: request.mountpoint,
            source: volume.remote,
            isReadOnly: request.values.flag(.readOnly),
            allowsOther: request.values.flag(.allowOther),
            forbidsExecution: request.values.flag(.noExecution)
        )
    }
}

/// Keeps a file lock until it is told to let go.
private final class HeldLock {
    private let lock: FileLock

    init(_ lock: consuming FileLock) {
        self.lock = lock
    }

    var token: String? { lock.token }

    /// Marks the place up to which the lock is needed.
    func release() {}
}

extension UploadState {
    /// What the running flusher says about a path; nil when none runs, or it knows of no upload there.
    fileprivate init?(of path: ObjectKey, in volume: String, _ launcher: FlusherLauncher) {
        let selection = UploadSelection(volumes: [volume], paths: [path.string])
        guard let client = try? launcher.connectIfRunning(program: "mount") else { return nil }
        defer { client.shutdown() }
        guard case .uploads(let uploads, _)? = try? client.call(.uploads(selection: selection), timeout: 5),
            let upload = uploads.first(where: { $0.path == path.string })
        else { return nil }
        self.init(
            state: upload.state.rawValue,
            progress: upload.size > 0 ? Double(upload.sent) / Double(upload.size) : 0,
            waiting: upload.waiting.map(\.reason).joined(separator: ",")
        )
    }
}

extension FlusherLink {
    /// Has what is complete at or below a path sent now and waits for it; ``FileError/notSent(_:)`` when it needs a person.
    fileprivate func send(_ path: ObjectKey) throws(FileError) {
        let left: [UploadReport]?
        do throws(ControlError) {
            left = try settle(path.string)
        } catch {
            throw .notSent("\(error)")
        }
        guard let left else { throw .interrupted }
        guard let first = left.first else { return }
        throw .notSent("\(first.path): \(first.error ?? first.state.rawValue); see moorage uploads")
    }
}

extension PolicyReport.Volume {
    /// Whether transfers that nobody waits for are held as the network costs, or little is to go over it.
    fileprivate var sparesNetwork: Bool {
        holds.contains { ["expensive", "constrained", "cellular"].contains($0.reason) }
    }
}
