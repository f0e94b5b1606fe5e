// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Journal
internal import ObjectStore
internal import Platform

/// What is stored with an object beside the attributes of its file: the media type, and what others have put there.
///
/// It is asked for before the request is noted: where asking fails, nothing is in doubt. What has to be asked for is only
/// what is not known to be nothing, or no more than the type that the name tells.
extension RowWork {
    typealias CopySource = (key: ObjectKey, version: ObjectVersion)

    /// What is to be stored with the content of a transfer, however it comes to the remote.
    func metadata(of transfer: Transfer, _ node: JournalNode) throws(WorkFailure) -> ObjectMetadata {
        let own = ObjectMetadata(node.attributes)
        guard node.kind == .file, !node.attributes.isSpecial else {
            // Links and special files have no content of their own; others may still have added to their objects.
            guard let source = node.generation?.wholeRemote else { return own }
            return own.carrying(try others(of: source.key, source.version, node) ?? ObjectMetadata())
        }
        guard let source = node.generation?.wholeRemote else { return try metadata(ofContent: own, transfer, node) }
        return try metadata(ofCopy: own, of: source, transfer, node)
    }

    /// New content: for a new object the type that its name tells; an object that is there keeps what is said of its place.
    private func metadata(
        ofContent own: ObjectMetadata,
        _ transfer: Transfer,
        _ node: JournalNode
    ) throws(WorkFailure) -> ObjectMetadata {
        guard case .version(let version) = transfer.base else { return try metadata(ofMoved: own, transfer, node) }
        guard let found = try toldOthers(of: transfer.key, version, node), found.isOfFile else {
            return own.typed(as: transfer.key)
        }
        return own.replacing(found)
    }

    /// Content that was changed and given another name before it was sent: as if both had been sent one by one.
    private func metadata(
        ofMoved own: ObjectMetadata,
        _ transfer: Transfer,
        _ node: JournalNode
    ) throws(WorkFailure) -> ObjectMetadata {
        guard let place = place(of: node.generation), place.key != transfer.key,
            let found = try toldOthers(of: place.key, place.version, node), found.isOfFile
        else { return own.typed(as: transfer.key) }
        let result = own.replacing(found)
        return found.chosenType == MediaTypes.system.type(of: place.key) ? result.typed(as: transfer.key) : result
    }

    /// The object that content was made from, also once an attempt to send it has fetched the rest of it.
    private func place(of generation: Generation?) -> CopySource? {
        if case .remote(let key, let version)? = generation?.underlay { return (key, version) }
        return generation?.origin.map { ($0.key, $0.version) }
    }

    /// What is sent with the content of another object.
    ///
    /// Everything goes with it; the type that its name told becomes that of the new name. Over an object that is there,
    /// content with nothing of its own is new content.
    private func metadata(
        ofCopy own: ObjectMetadata,
        of source: CopySource,
        _ transfer: Transfer,
        _ node: JournalNode
    ) throws(WorkFailure) -> ObjectMetadata {
        // Of another version than is to be copied, nothing is: the request is refused.
        guard let found = try others(of: source.key, source.version, node) else { return own.typed(as: transfer.key) }
        guard source.key != transfer.key else { return own.carrying(found) }
        let typeOfName = MediaTypes.system.type(of: source.key)
        let isOwn = found.others(typeOfName: typeOfName) != .unknown
        if isOwn, case .version = transfer.base { return try metadata(ofContent: own, transfer, node) }
        let result = own.carrying(found)
        return found.chosenType == typeOfName ? result.typed(as: transfer.key) : result
    }

    /// What a version of an object has beside attributes; nil when the remote has another version, or none.
    private func others(
        of key: ObjectKey,
        _ version: ObjectVersion,
        _ node: JournalNode
    ) throws(WorkFailure) -> ObjectMetadata? {
        if let known = session.catalog.known(key), known.version?.isSame(as: version) == true,
            let others = known.surelyOthers
        {
            let blank = ObjectMetadata(mode: known.metadata?.mode)
            return others == .typeOfName ? blank.typed(as: key) : blank
        }
        guard let found = try status(of: key), found.version.isSame(as: version) else { return nil }
        return try stored(found)
    }

    /// The same for new content, which does not wait for ever for a server that lets nobody look.
    private func toldOthers(
        of key: ObjectKey,
        _ version: ObjectVersion,
        _ node: JournalNode
    ) throws(WorkFailure) -> ObjectMetadata? {
        do throws(WorkFailure) {
            return try others(of: key, version, node)
        } catch {
            guard case .store(let cause) = error, isFinal(cause, node) else { throw error }
            Log.warning("flusher", "\(key): what others have stored with it cannot be kept: \(cause)")
            return ObjectMetadata().typed(as: key)
        }
    }

    /// Whether a server has refused for good to tell of an object: what it refused may be granted a moment later, and
    /// is asked for once more.
    private func isFinal(_ cause: StoreError, _ node: JournalNode) -> Bool {
        switch cause.cause {
        case .unsupported: true
        case .forbidden, .rejected: node.schedule.attempts > 0 && node.schedule.lastError == cause.message
        default: false
        }
    }

    /// What somebody has stored with an object that was looked at.
    func stored(_ found: ObjectStatus) throws(WorkFailure) -> ObjectMetadata {
        try remote { (store) throws(StoreError) in try store.stored(found.metadata) }
    }

    /// Sends metadata; without what others stored where both together are more than the server takes.
    func sending<Value>(
        _ metadata: ObjectMetadata,
        of node: JournalNode,
        _ body: (ObjectMetadata) throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
        do throws(StoreError) {
            return try body(metadata)
        } catch {
            guard error.code == Self.tooMuch, !metadata.isOfAttributes else { throw error }
            return try body(withoutOthers(node))
        }
    }

    /// The code of a server that was sent more metadata than it takes.
    static let tooMuch = "MetadataTooLarge"

    func withoutOthers(_ node: JournalNode) -> ObjectMetadata {
        Log.warning("flusher", "\(node.path): there is no room for other metadata of its object beside its attributes")
        return ObjectMetadata(node.attributes)
    }
}

extension ObjectMetadata {
    /// With the media type that a key's name tells.
    func typed(as key: ObjectKey) -> ObjectMetadata {
        var result = self
        result.contentType = MediaTypes.system.type(of: key)
        return result
    }

    /// Whether an object with it shows as a file with content.
    var isOfFile: Bool {
        guard let type = mode.map({ $0 & FileAttributes.typeMask }) else { return true }
        return type == 0 || type == FileAttributes.regularType
    }
}

extension CatalogEntry {
    /// How long it is believed that nobody has added to an object's metadata, in seconds.
    private static let patience = 60.0

    /// What a look a short time ago, or our own upload, has shown of the object's other metadata; nil: it has to be asked.
    var surelyOthers: OtherMetadata? {
        let now = Timestamp.now()
        guard others != .unknown, !needsValidation, checkedAt <= now,
            now < checkedAt.advanced(bySeconds: Self.patience)
        else { return nil }
        return others
    }
}
