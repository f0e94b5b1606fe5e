// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Database
internal import Glibc
internal import Journal
internal import ObjectStore
internal import Platform

/// What the mount knows of the remote: the catalog, brought up to date when it has aged.
///
/// Answers from the catalog need no network. Unreachable is never taken for
/// empty or deleted: a folder that was listed once is shown as it was, whatever
/// its age; one that never was gives an error.
final class RemoteView: Sendable {
    let remote: Remote
    let catalog: Catalog
    let options: FileSystemOptions
    let journal: Journal
    /// Paths changed while the catalog was in memory.
    let unsettled = Lock<Set<ObjectKey>>([])
    private let startedAt = Timestamp.now()
    /// When everything was to be asked again last.
    let refreshed = Lock<Timestamp?>(nil)
    /// What was to be asked again last, with all below it.
    let refreshedPaths = Lock<[RefreshedPath]>([])
    let listings = Listings()
    /// Paths whose attributes are being asked for, so that each is asked for once.
    private let inquiries = Monitor<Set<ObjectKey>>([])
    /// In monotonic seconds.
    private let validationsPauseUntil = Lock(0.0)
    let prefetcher: Prefetcher
    private let answers: AnswerKeeper

    init(
        remote: Remote,
        catalog: Catalog,
        options: FileSystemOptions,
        journal: Journal
    ) {
        self.journal = journal
        self.remote = remote
        self.catalog = catalog
        self.options = options
        prefetcher = Prefetcher { folder, name, limit in
            (try? catalog.namesToDescribe(in: folder, after: name, limit: limit)) ?? []
        }
        answers = AnswerKeeper(catalog: catalog)
    }

    func start() throws(SystemError) {
        try remote.startProbing()
        try prefetcher.start { [weak self] path in
            try? self?.describe(path)
        }
    }

    func stop() {
        remote.stopProbing()
        prefetcher.stop()
    }

    // MARK: Without the network

    func entry(_ path: ObjectKey) throws(DatabaseError) -> CatalogEntry? {
        if path.isRoot { return CatalogEntry(path: path, kind: .directory, hasMarker: false, checkedAt: startedAt) }
        return try catalog.entry(path)
    }

    /// What is known of a path; nil with `isMissing` when it is known not to be there.
    func look(at path: ObjectKey) throws(DatabaseError) -> (entry: CatalogEntry?, isMissing: Bool) {
        path.isRoot ? (try entry(path), false) : try catalog.look(at: path)
    }

    /// Some names known in a folder, by name, and whether all that it has are known.
    func contents(
        of folder: ObjectKey,
        after name: ObjectKey?,
        limit: Int
    ) throws(DatabaseError) -> (entries: [CatalogEntry], areAll: Bool) {
        try catalog.contents(of: folder, after: name, limit: limit)
    }

    /// Whether the remote has told all attributes of an entry.
    func isDescribed(_ entry: CatalogEntry) -> Bool {
        entry.metadata != nil || (entry.kind == .directory && entry.hasMarker == false)
    }

    /// The attributes of an entry; nil when a HEAD has to tell them, or whether they are still the same.
    func validAttributes(of entry: CatalogEntry) -> FileAttributes? {
        entry.needsValidation ? nil : attributes(of: entry)
    }

    /// The attributes of an entry with what is missing filled in; nil when a HEAD has to tell them first.
    func attributes(of entry: CatalogEntry) -> FileAttributes? {
        let isDirectory = entry.kind == .directory
        guard isDescribed(entry) || (options.usesServerModificationTime && !isDirectory) else { return nil }
        let metadata = entry.metadata ?? ObjectMetadata()
        let type = isDirectory ? FileAttributes.directoryType : FileAttributes.regularType
        let standard: UInt32 = isDirectory ? 0o777 : 0o666
        var mode = metadata.mode ?? type | standard & ~options.umask
        if !Self.isBelieved(mode, of: entry) { mode = type | mode & 0o7777 }
        var attributes = FileAttributes(
            mode: mode,
            uid: metadata.uid ?? options.uid,
            gid: metadata.gid ?? options.gid,
            modified: metadata.modified ?? entry.version?.lastModified ?? startedAt,
            extended: metadata.extended
        )
        if attributes.isDevice { attributes.device = metadata.device ?? 0 }
        return attributes
    }

    /// Whether the type bits that a tool wrote count.
    ///
    /// They may be missing or wrong: only links and special files differ from what the key says, and the latter have
    /// no content that would be out of reach.
    private static func isBelieved(_ mode: UInt32, of entry: CatalogEntry) -> Bool {
        let attributes = FileAttributes(mode: mode, uid: 0, gid: 0, modified: entry.checkedAt)
        guard entry.kind == .file else { return false }
        return attributes.isSymbolicLink || (attributes.isSpecial && entry.version?.size == 0)
    }

    /// What the journal must know of the remote at a path.
    ///
    /// To be called within the journal's transaction, as it does by itself.
    func state(of path: ObjectKey) throws(DatabaseError) -> RemoteState {
        guard let entry = try entry(path) else { return .absent }
        return state(of: entry)
    }

    func state(of entry: CatalogEntry) -> RemoteState {
        let attributes = isDescribed(entry) ? attributes(of: entry) : nil
        switch entry.kind {
        case .absent: return .absent
        case .directory: return .directory(hasMarker: entry.hasMarker ?? false, attributes)
        case .file:
            guard let version = entry.version else { return .absent }
            return .file(version, attributes, target: entry.target)
        }
    }

    /// Whether a folder that is only implied by its names may lose its last one soon: exact for small folders.
    func mayBecomeEmpty(_ folder: ObjectKey) throws -> Bool {
        try catalog.contents(of: folder, after: nil, limit: 2).entries.count <= 1
    }

    /// Whether a folder's last listing had objects that are not shown.
    func hasHiddenObjects(_ folder: ObjectKey) throws(DatabaseError) -> Bool {
        try catalog.folderState(folder).map { $0.hidden > 0 } ?? false
    }

    func statistics(directory: String) -> FileSystemStatistics {
        var status = statvfs()
        guard statvfs(directory, &status) == 0 else { return FileSystemStatistics(totalBytes: 0, freeBytes: 0) }
        let unit = Int64(status.f_frsize)
        return FileSystemStatistics(totalBytes: Int64(status.f_blocks) * unit, freeBytes: Int64(status.f_bavail) * unit)
    }

    // MARK: With the network

    func isFresh(_ folder: ObjectKey) -> Bool {
        _ = followCatalog()
        return listings.isFresh(folder, age: options.metadataAge)
    }

    /// Has a folder listed again before its names are believed.
    func distrust(_ folder: ObjectKey) { listings.forget(folder) }

    func isRecent(_ time: Timestamp, _ age: Double) -> Bool {
        let now = Timestamp.now()
        return time <= now && now < time.advanced(bySeconds: age) && !isOutdated(time)
    }

    /// A folder was made where the remote had nothing: it needs no listing while its parent's is believed.
    ///
    /// Where that is of before, as nobody answers, so is this: what is made in it shows also when nobody answers later.
    func noteNew(_ folder: ObjectKey, isParentLocal: Bool) {
        let isKnown = isParentLocal || listings.isReal(folder.parent)
        do {
            try catalog.noteEmpty(folder, at: isKnown ? .now() : Timestamp(nanoseconds: 0))
            if isKnown { listings.note(folder, at: monotonicSeconds(), cost: 0) }
        } catch {
            Log.info("mount", "\(error)")
        }
    }

    /// Asks for what a listing does not tell: mode, owner, time, and whether it is a symbolic link.
    func describe(_ path: ObjectKey) throws(FileError) {
        let isMine = inquiries.waitUnlessInterrupted { paths in paths.insert(path).inserted ? true : nil }
        guard isMine != nil else { throw .interrupted }
        defer { inquiries.update { _ = $0.remove(path) } }
        // Another thread may have asked while this one waited.
        guard let entry = try translating({ try catalog.entry(path) }), entry.kind != .absent else { return }
        let isKnown = isDescribed(entry)
        guard entry.needsValidation || !isKnown else { return }
        if isKnown, monotonicSeconds() < validationsPauseUntil.withLock({ $0 }) { return }
        prefetcher.missed(path)
        do throws(FileError) {
            try entry.kind == .directory ? ask(entry) : describeFile(path)
        } catch {
            if case .remote = error, isKnown {
                // Of a remote in trouble each of many folders would wait for all attempts of its own.
                validationsPauseUntil.withLock { $0 = monotonicSeconds() + Self.validationPause }
            }
            throw error
        }
    }

    /// How long nothing known is validated after that failed, in seconds.
    private static let validationPause = 10.0
    /// How many names a folder may have that is listed for its attributes.
    private static let smallFolder = 1000

    /// Asks for the attributes of a folder: by its own listing where it was listed before, which tells of its marker and
    /// is most often asked for next.
    private func ask(_ entry: CatalogEntry) throws(FileError) {
        if entry.needsValidation, entry.metadata?.mode != nil, options.metadataAge > 0, try isToldByListing(entry.path)
        {
            return
        }
        try describeFolder(entry.path)
    }

    /// Whether a folder's own listing, one of a short time ago or a new one, says that its attributes are the same.
    private func isToldByListing(_ path: ObjectKey) throws(FileError) -> Bool {
        if listings.isFresh(path, age: options.metadataAge) { return true }
        guard try translating({ try catalog.isListed(path, atMost: Self.smallFolder) }) else { return false }
        try freshen(path)
        guard let now = try translating({ try catalog.entry(path) }), now.kind == .directory else { return true }
        return !now.needsValidation && isDescribed(now)
    }

    /// Asks for attributes, or whether they are still what is known of them: that counts where nobody answers.
    func validate(_ path: ObjectKey) throws(FileError) {
        let isKnown = try translating { try catalog.entry(path)?.needsValidation ?? false }
        do throws(FileError) {
            try describe(path)
        } catch {
            guard isKnown, !error.isInterrupted else { throw error }
            Log.info("mount", "showing \(path) as it was: \(error)")
        }
    }

    /// The same before the attributes change, which all go to the remote then.
    func validateForChange(_ entry: CatalogEntry) throws(FileError) {
        guard entry.kind == .directory, isDescribed(entry) else { return }
        let path = entry.path
        if !entry.needsValidation, entry.metadata?.mode == nil, !listings.isFresh(path, age: options.metadataAge) {
            try translating { try catalog.requireValidation(of: path) }
            return try validate(path)
        }
        if entry.needsValidation { try validate(path) }
    }

    func describeFile(_ path: ObjectKey) throws(FileError) {
        let token = try translating { try catalog.token() }
        let status = try head(path)
        try translating {
            guard let status else {
                try catalog.markAbsent(path, since: token, at: .now())
                return
            }
            try answers.keep(CatalogEntry(path: path, status, checkedAt: .now()), since: token)
        }
    }

    func describeFolder(_ path: ObjectKey) throws(FileError) {
        let token = try translating { try catalog.token() }
        let marker = try head(ObjectKey(bytes: path.bytes + [UInt8(ascii: "/")]))
        var entry =
            marker.map { CatalogEntry(path: path, kind: .directory, $0, checkedAt: .now()) }
            ?? CatalogEntry(path: path, kind: .directory, checkedAt: .now())
        entry.hasMarker = marker != nil
        try translating { try answers.keep(entry, since: token) }
    }

    /// nil when there is no such object.
    func head(_ key: ObjectKey) throws(FileError) -> ObjectStatus? {
        do throws(StoreError) {
            return try remote.call { store throws(StoreError) in
                try store.status(of: key, cancellation: remote.ending)
            }
        } catch {
            if error.cause == .notFound { return nil }
            throw FileError(error)
        }
    }
}
