// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
package import Database
internal import Platform
internal import Synchronization

/// The names, versions and attributes that the remote was seen to have, in a file that may be deleted at any time.
///
/// The mount writes what it lists and looks up, the flusher what it commits. Any
/// thread may call; every method is one transaction. When the file was deleted or damaged a
/// new one is begun. While the disk is full or fails the catalog is kept in
/// memory and the file is deleted, or marked: it lacks what one of the two learned since.
package final class Catalog: Sendable {
    private struct State: Sendable {
        var store: CatalogStore
        /// When to try the file again, in monotonic seconds; only while the store is in memory.
        var retryAt = 0.0
    }

    private static let retryInterval = 10.0
    private let files: CatalogFiles
    private let state: Lock<State>
    private let committed = Atomic<Int>(0)

    /// Opens `catalog.sqlite` in a volume's cache directory, creating both; a damaged or newer file is replaced.
    ///
    /// `marks` is the folder, the same for all processes, where `catalog.distrusted` tells of a file that is out of date
    /// and could not be deleted: on another disk, if possible. `unlink` is for tests.
    package init(
        directory: String,
        marks: String? = nil,
        unlink: (@Sendable (String) -> Void)? = nil
    ) throws(DatabaseError) {
        files = CatalogFiles(directory: directory, marks: marks, unlink: unlink)
        let store: CatalogStore
        do throws(DatabaseError) {
            store = try CatalogStore(files, epoch: 0)
        } catch {
            guard error.isOfDisk else { throw error }
            store = try CatalogStore(inMemoryBecause: error, epoch: 0)
            files.disown()
        }
        state = Lock(State(store: store, retryAt: monotonicSeconds() + Self.retryInterval))
    }

    /// Changes when the file was found deleted or unusable: what was remembered about it no longer holds.
    package var epoch: Int { state.withLock { $0.store.epoch } }

    /// Whether it is in memory only for now, so that other processes do not share it.
    package var isInMemory: Bool { state.withLock { $0.store.isInMemory } }

    /// How many changes this object has made: while that stays the same, nobody here has learned anything.
    package var changes: Int { committed.load(ordering: .sequentiallyConsistent) }

    /// Changes whenever any process commits; equal values mean that nothing changed between the calls.
    package func changeCounter() throws(DatabaseError) -> CatalogChange {
        try read { entries throws(DatabaseError) in
            let version = try entries.connection.first("PRAGMA data_version") { $0.integer(0) } ?? 0
            // The version leaves out this connection's own changes, which there are only in memory.
            let own = try entries.connection.first("SELECT total_changes()") { $0.integer(0) } ?? 0
            return CatalogChange(epoch: entries.epoch, version: version, changes: own)
        }
    }

    func read<Result>(_ body: (Entries) throws(DatabaseError) -> Result) throws(DatabaseError) -> Result {
        let store = current()
        do throws(DatabaseError) {
            return try store.read(body)
        } catch {
            return try fallback(from: store, error).read(body)
        }
    }

    @discardableResult
    func write<Result>(_ body: (Entries) throws(DatabaseError) -> Result) throws(DatabaseError) -> Result {
        let store = current()
        defer { committed.wrappingAdd(1, ordering: .sequentiallyConsistent) }
        do throws(DatabaseError) {
            let result = try store.write(body)
            if store.isInMemory, files.mayExist { files.disown() }
            return result
        } catch {
            return try fallback(from: store, error).write(body)
        }
    }

    /// The store to use now: the file when it is still the one at the path and believed, else a new one, else memory.
    private func current() -> CatalogStore {
        // The look at the file is outside the lock: many threads come here at once.
        let store = state.withLock { $0.store }
        if !store.isInMemory, store.isCurrent(files) { return store }
        return state.withLock { state in
            if state.store.isInMemory {
                guard monotonicSeconds() >= state.retryAt else { return state.store }
            } else if state.store.isCurrent(files) {
                return state.store
            }
            if !state.store.isInMemory {
                let reason = files.areDistrusted ? "lacks what another process has learned" : "was deleted"
                Log.notice("catalog", "\(files.path) \(reason); going on with a new one")
            }
            let isAgain = files.areDistrusted && !state.store.isInMemory && monotonicSeconds() < state.retryAt
            state.store.giveUp(files)
            state.retryAt = monotonicSeconds() + Self.retryInterval
            state.store =
                (isAgain ? Self.memory(for: state.store) : nil) ?? Self.replacement(for: state.store, at: files)
            return state.store
        }
    }

    /// What takes the place of a file that was begun a moment ago and is marked: another process cannot use what this one
    /// can, and would have each new file given up with all its listings whenever it notes something.
    private static func memory(for old: CatalogStore) -> CatalogStore? {
        let error = DatabaseError(.readOnly, "another process can neither write nor delete it")
        return try? CatalogStore(inMemoryBecause: error, epoch: old.epoch + 1)
    }

    private static func replacement(for old: CatalogStore, at files: CatalogFiles) -> CatalogStore {
        do throws(DatabaseError) {
            let store = try CatalogStore(files, epoch: old.epoch + 1)
            // What was learned in memory meanwhile is newer than the file.
            if old.isInMemory { try store.write { entries throws(DatabaseError) in try entries.clear() } }
            return store
        } catch {
            guard !old.isInMemory else { return old }
            guard let memory = try? CatalogStore(inMemoryBecause: error, epoch: old.epoch + 1) else { return old }
            files.disown()
            return memory
        }
    }

    /// A new file for a damaged one, a store in memory when the file cannot be used; throws what is not the disk's fault.
    private func fallback(from failed: CatalogStore, _ error: DatabaseError) throws(DatabaseError) -> CatalogStore {
        guard !failed.isInMemory, error.isOfDisk || error.isOfAnotherFile else { throw error }
        let isDeleted = error.kind != .full && !failed.isCurrent(files)
        if isDeleted || error.kind == .corrupt || error.isOfAnotherFile { return startAnew(after: failed, error) }
        let memory = try CatalogStore(inMemoryBecause: error, epoch: failed.epoch + 1)
        return state.withLock { state in
            if state.store === failed {
                files.disown()
                state.store = memory
                state.retryAt = monotonicSeconds() + Self.retryInterval
            }
            return state.store
        }
    }

    /// Gives the name to a new file; another process that has the old one open notices by the name.
    private func startAnew(after failed: CatalogStore, _ error: DatabaseError) -> CatalogStore {
        state.withLock { state in
            guard state.store === failed else { return state.store }
            Log.warning("catalog", "starting anew: \(error)")
            failed.giveUp(files)
            state.retryAt = monotonicSeconds() + Self.retryInterval
            state.store = Self.replacement(for: failed, at: files)
            return state.store
        }
    }
}

extension DatabaseError {
    /// Whether the file is at fault, which need not be: what it holds can be learned anew.
    fileprivate var isOfDisk: Bool { [.full, .io, .readOnly, .corrupt].contains(kind) }

    /// Whether there is no such table, as in a file of which a part was deleted: what was written last was in the other part.
    ///
    /// SQLite says that with SQLITE_ERROR, and nothing else of statements that never change.
    fileprivate var isOfAnotherFile: Bool { kind == .other && code & 0xFF == 1 }
}
