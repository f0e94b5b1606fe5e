// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Catalog
internal import Journal
internal import ObjectStore
internal import Platform
internal import Synchronization

/// Keeps what is pinned whole in the cache: fetches it in the background, one file after the other.
///
/// Goes over the pins when they change and every few ages of the metadata, so that new files and new versions come in.
/// What is pinned no more, and old versions, are let go only after a round in which every pin could be looked at.
final class Pinner: Sendable {
    private let store: PinStore
    private let cache: BlockCache
    private let view: RemoteView
    private let isRunning = Monitor(false)
    /// Whatever a round waits for ends with the mount: a remote that hangs keeps no unmount waiting.
    private let work = Interruption.Work()
    /// The held files that were seen to be whole, with their times of change then, so that a round costs them one stat(2).
    private let whole = Lock([String: Timestamp]())
    /// How often to look whether the list was changed by a command, in seconds.
    private static let glance = 1.0
    /// How long a round may take to end once it was given up, in seconds: it waits for the local disk at most.
    private static let longestEnd = 10.0
    /// The most files that pins may cover: their names are held in memory for a round.
    private static let maximumFiles = 200_000

    init(store: PinStore, cache: BlockCache, view: RemoteView) {
        self.store = store
        self.cache = cache
        self.view = view
    }

    func start() throws(SystemError) {
        isRunning.inspect { $0 = true }
        try Thread.detached(name: "pins") { [self] in
            work.run { run() }
            isRunning.update { $0 = false }
        }
    }

    /// Gives up what is under way, and waits for the end of it.
    func stop() {
        work.giveUp()
        isRunning.update { _ in }
        if isRunning.wait(timeout: Self.longestEnd, until: { $0 ? nil : true }) == nil {
            Log.warning("pins", "what is pinned is still being fetched at the end of the mount")
        }
    }

    private var isStopping: Bool { work.isGivenUp }

    private func run() {
        let interval = max(5, view.options.metadataAge * 3)
        var seen: [Int64]?
        var nextRound = 0.0
        var isTold = true
        do throws(SystemError) {
            try store.removeAbandoned()
        } catch {
            Log.debug("mount", "\(error)")
        }
        while !isStopping {
            let revision = store.revision
            // What a failing disk did not take in is told when it is well again, and what it left is taken away then.
            if revision != seen || (!revision.isEmpty || !isTold) && monotonicSeconds() >= nextRound {
                seen = revision
                isTold = round(revision)
                nextRound = monotonicSeconds() + (isTold ? interval : 5)
            }
            _ = isRunning.wait(timeout: Self.glance) { _ in isStopping ? true : nil }
        }
    }

    /// One file that is to be kept, and the pins that want it.
    private struct Target {
        var version: ObjectVersion
        var pins: [Int]
    }

    /// Returns whether the pins could be read, and commands can know how far they have come.
    private func round(_ revision: [Int64]) -> Bool {
        do throws(SystemError) {
            return round(try store.load(), revision)
        } catch {
            Log.warning("pins", "what is pinned cannot be read, and stays as it is: \(error)")
            return false
        }
    }

    private func round(_ list: PinList, _ revision: [Int64]) -> Bool {
        var progress = list.paths.map { PinProgress(path: $0) }
        var targets: [ObjectKey: Target] = [:]
        for (index, path) in list.paths.enumerated() where !isStopping {
            do throws(FileError) {
                try collect(path) { entry in
                    let entry = read(entry)
                    guard let version = entry.version, targets.count < Self.maximumFiles,
                        targets[entry.path]?.pins.last != index
                    else { return }
                    progress[index].files += 1
                    progress[index].bytesTotal += version.size
                    targets[entry.path, default: Target(version: version, pins: [])].pins.append(index)
                }
            } catch {
                progress[index].problem = "\(error)"
            }
        }
        if targets.count >= Self.maximumFiles {
            Log.warning("pins", "no more than \(Self.maximumFiles) files are kept")
        }
        // What was seen of them up to the end says less than what was told before.
        guard !isStopping else { return true }
        let isWhole = progress.allSatisfy { $0.problem == nil }
        let kept = keep(targets, &progress) { self.store.revision == revision && !self.isStopping }
        whole.withLock { $0 = $0.filter { kept.contains($0.key) } }
        if isWhole, !isStopping { cache.releaseHeld(except: kept) }
        return tell(progress)
    }

    /// The object that a file is read from: of one with several names that by the first.
    private func read(_ entry: CatalogEntry) -> CatalogEntry {
        guard let first = (try? view.journal.linked(at: entry.path)?.first) ?? nil,
            let known = (try? view.entry(first)) ?? nil, known.kind == .file
        else { return entry }
        return known
    }

    /// How many names are taken from the catalog at once.
    private static let chunk = 1024

    /// Calls `body` with each file at or below a path.
    private func collect(_ path: ObjectKey, _ body: (CatalogEntry) -> Void) throws(FileError) {
        if !path.isRoot { try view.freshen(path.name, in: path.parent) }
        let entry = try translating { try view.entry(path) }
        switch entry?.kind {
        case .file: entry.map(body)
        case .directory: try collectFolder(path, body)
        case .absent, nil: break
        }
    }

    private func collectFolder(_ folder: ObjectKey, _ body: (CatalogEntry) -> Void) throws(FileError) {
        var folders = [folder]
        while let next = folders.popLast(), !isStopping {
            try view.freshen(next)
            var last: ObjectKey?
            repeat {
                let entries = try translating { try view.contents(of: next, after: last, limit: Self.chunk).entries }
                for entry in entries {
                    switch entry.kind {
                    case .directory: folders.append(entry.path)
                    case .file: body(entry)
                    case .absent: break
                    }
                }
                last = entries.count == Self.chunk ? entries.last?.path.name : nil
            } while last != nil && !isStopping
        }
    }

    private static let waiting = "waits for a network that need not be spared: see moorage policy show"

    /// Fetches the files in order, as many as fit; returns the names of those that are held.
    private func keep(
        _ targets: [ObjectKey: Target],
        _ progress: inout [PinProgress],
        while isWanted: () -> Bool
    ) -> Set<String> {
        var names = Set<String>()
        var room = cache.options.capacity
        var toldAt = 0.0
        for (key, target) in targets.sorted(by: { $0.key < $1.key }) {
            if isStopping { break }
            guard target.version.size <= room else {
                for pin in target.pins { progress[pin].problem = "does not fit into cache_size" }
                continue
            }
            room -= target.version.size
            let (present, problem, name) = keep(key, target.version, isWanted)
            if let name { names.insert(name) }
            for pin in target.pins {
                progress[pin].bytesPresent += present
                if let problem { progress[pin].problem = problem }
            }
            if monotonicSeconds() > toldAt + 1 {
                toldAt = monotonicSeconds()
                _ = tell(progress)
            }
        }
        return names
    }

    private func keep(
        _ key: ObjectKey,
        _ version: ObjectVersion,
        _ isWanted: () -> Bool
    ) -> (present: Int64, problem: String?, name: String?) {
        if let file = cache.heldFile(of: key, version: version), whole.withLock({ $0[file.name] == file.changed }) {
            return (version.size, nil, file.name)
        }
        let reader = cache.reader(of: key, version: version)
        var name: String?
        do {
            name = try cache.hold(reader)
            // Asked for first: what goes meanwhile is looked at in the next round.
            let file = cache.heldFile(of: key, version: version)
            let isComplete = try reader.complete { isWanted() && !cache.isThrifty }
            if isComplete, let file { whole.withLock { $0[file.name] = file.changed } }
            let reason = cache.isThrifty ? Self.waiting : cache.health.warning ?? "the cache does not take it"
            let problem = isComplete || !isWanted() ? nil : reason
            return (reader.residentBytes, problem, name)
        } catch {
            return (reader.residentBytes, isWanted() ? "\(key): \(error)" : nil, name)
        }
    }

    private func tell(_ progress: [PinProgress]) -> Bool {
        do throws(SystemError) {
            try store.tell(progress)
            return true
        } catch {
            Log.warning("pins", "cannot tell how far they are: \(error)")
            return false
        }
    }
}
