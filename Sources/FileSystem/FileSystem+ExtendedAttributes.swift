// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import BlockCache
internal import Catalog
internal import Configuration
internal import Journal
internal import Platform
internal import Synchronization

/// Extended attributes: those that are kept with the objects, and Moorage's own, which say how a file stands at the
/// remote, and pin it.
extension FileSystem {
    private static let own = Array("user.moorage.".utf8)
    private static let pin = ObjectKey("user.moorage.pin")
    private static let trusted = Array("trusted.".utf8)
    private static let security = Array("security.".utf8)
    private static let kept = [Array("user.".utf8), trusted, security]
    /// Those of `security` that the kernel goes by (xattr(7), capabilities(7), security/integrity and the modules of LSM): a
    /// bucket must not hand out rights.
    private static let powers = ["capability", "selinux", "ima", "evm", "apparmor", "SMACK64"]
        .map { security + Array($0.utf8) }

    package func extendedAttribute(_ number: InodeNumber, _ name: ObjectKey) throws(FileError) -> [UInt8] {
        if name.bytes.starts(with: Self.own) { return try ownAttribute(number, name) }
        // Told that there are no ACLs and capabilities at all, programs such as ls ask once and not for every file.
        guard Self.isKept(name) else { throw .notSupported }
        let inode = try inode(number)
        try learnAttributes(of: inode)
        guard let value = inode.state.withLock({ $0.attributes }).extended.value(of: name.bytes) else {
            throw .noAttribute
        }
        return value
    }

    /// The names of what is kept with the object; Moorage's own are not told: a copy of a file must not try to carry
    /// them along.
    package func extendedAttributes(_ number: InodeNumber, caller: Caller) throws(FileError) -> [ObjectKey] {
        let inode = try inode(number)
        try learnAttributes(of: inode)
        return inode.state.withLock { $0.attributes }.extended.names.map { ObjectKey(bytes: $0) }.filter {
            guard Self.isKept($0), !$0.bytes.starts(with: Self.own) else { return false }
            return caller.uid == 0 || !$0.bytes.starts(with: Self.trusted)
        }
    }

    package func setExtendedAttribute(
        _ number: InodeNumber,
        _ name: ObjectKey,
        _ value: [UInt8],
        _ condition: ExtendedAttributeCondition = .any
    ) throws(FileError) {
        if name.bytes.starts(with: Self.own) { return try setOwnAttribute(number, name, value) }
        guard Self.isKept(name) else { throw .notSupported }
        guard !Self.kept.contains(name.bytes) else { throw .invalidArgument }
        try changeExtended(number, name) { extended throws(FileError) in
            try extended.setting(name.bytes, to: value, condition)
        }
    }

    package func removeExtendedAttribute(_ number: InodeNumber, _ name: ObjectKey) throws(FileError) {
        if name.bytes.starts(with: Self.own) { return try removeOwnAttribute(number, name) }
        guard Self.isKept(name) else { throw .noAttribute }
        try changeExtended(number, name) { extended throws(FileError) in try extended.removing(name.bytes) }
    }

    /// Whether attributes of this name are kept with objects; others may come from other tools, and are carried along.
    private static func isKept(_ name: ObjectKey) -> Bool {
        guard kept.contains(where: { name.bytes.starts(with: $0) }) else { return false }
        return !powers.contains { name.bytes.starts(with: $0) }
    }

    private func changeExtended(
        _ number: InodeNumber,
        _ name: ObjectKey,
        _ body: (ExtendedAttributes) throws(FileError) -> ExtendedAttributes
    ) throws(FileError) {
        try ensureWritable()
        let inode = try inode(number)
        let isOfUsers = !name.bytes.starts(with: Self.trusted) && !name.bytes.starts(with: Self.security)
        let mayHave = inode.kind == .file || inode.kind == .directory || !isOfUsers
        guard mayHave else { throw .notPermitted }
        try change(inode) { attributes throws(FileError) in
            AttributeChanges(extended: try body(attributes.extended))
        }
        inode.state.withLock { $0.noteStatusChange(isTimeSet: false) }
    }
}

extension FileSystem {
    private func ownAttribute(_ number: InodeNumber, _ name: ObjectKey) throws(FileError) -> [UInt8] {
        let inode = try inode(number)
        let path = try path(of: number)
        switch String(decoding: name.bytes.dropFirst(Self.own.count), as: UTF8.self) {
        case "state": return Array(try uploadState(of: inode, path).state.utf8)
        case "progress": return Array(decimal(try uploadState(of: inode, path).progress).utf8)
        case "waiting": return Array(try uploadState(of: inode, path).waiting.utf8)
        case "pin":
            let list = try translating { try pins.load() }
            if list.contains(path) { return Array("1".utf8) }
            guard list.covers(path) else { throw .noAttribute }
            return Array("inherited".utf8)
        case "etag":
            let entry = try translating { try view.entry(path) }
            guard let tag = entry?.version?.entityTag else { throw .noAttribute }
            return Array(tag.fieldValue.utf8)
        case let word:
            guard let setting = UploadWish.name(word),
                let text = try translating({ try journal.node(at: path) })?.schedule.text(of: setting)
            else { throw .noAttribute }
            return Array(text.utf8)
        }
    }

    /// Sets the pin, or what a person wishes of the upload: the ones of Moorage's own that can be set.
    private func setOwnAttribute(_ number: InodeNumber, _ name: ObjectKey, _ value: [UInt8]) throws(FileError) {
        if let setting = Self.setting(name) {
            return try reschedule(number, setting, String(decoding: value, as: UTF8.self))
        }
        guard name == Self.pin else { throw .notPermitted }
        switch String(decoding: value, as: UTF8.self) {
        case "1": _ = try changePins(number) { $0.insert($1) }
        case "0": _ = try changePins(number) { $0.remove($1) }
        default: throw .invalidArgument
        }
    }

    /// Changes the pins at an inode's path; false when nothing was to be changed.
    private func changePins(
        _ number: InodeNumber,
        _ body: (inout PinList, ObjectKey) -> Bool
    ) throws(FileError) -> Bool {
        let path = try path(of: number)
        do throws(SystemError) {
            return try pins.change { body(&$0, path) }
        } catch {
            throw .system(error)
        }
    }

    private func removeOwnAttribute(_ number: InodeNumber, _ name: ObjectKey) throws(FileError) {
        if let setting = Self.setting(name) {
            let node = try translating { try journal.node(at: path(of: number)) }
            guard node?.schedule.text(of: setting) != nil else { throw .noAttribute }
            return try reschedule(number, setting, "")
        }
        guard name == Self.pin else { throw .notPermitted }
        guard try changePins(number, { $0.remove($1) }) else { throw .noAttribute }
    }

    /// The setting of a file that an extended attribute is.
    private static func setting(_ name: ObjectKey) -> OptionName? {
        guard name.bytes.starts(with: own) else { return nil }
        return UploadWish.name(String(decoding: name.bytes.dropFirst(own.count), as: UTF8.self))
    }

    /// Notes a wish for the upload of what is pending at an inode's path; an empty text takes it back.
    private func reschedule(_ number: InodeNumber, _ setting: OptionName, _ text: String) throws(FileError) {
        try ensureWritable()
        let path = try path(of: number)
        guard let wish = UploadWish(setting, text, now: .now()) else { throw .invalidArgument }
        switch try translating({ try journal.reschedule(path) { $0.take(wish) } }) {
        case .noted: onReschedule()
        // What is at the remote already has no upload that could wait.
        case .nothingPending: throw .noAttribute
        case .tooManySettings: throw .attributesTooLarge
        }
    }

    private func uploadState(of inode: Inode, _ path: ObjectKey) throws(FileError) -> UploadState {
        let hasChanges = inode.state.withLock { $0.revision != $0.recorded }
        guard let row = try translating({ try journal.node(at: path) }) else {
            return UploadState(state: "remote", progress: 1, waiting: "")
        }
        if row.isOpen || hasChanges { return UploadState(state: "open", progress: 0, waiting: "") }
        return uploadState(path) ?? UploadState(state: "queued", progress: 0, waiting: "")
    }

    private func decimal(_ value: Double) -> String {
        let thousandths = Int(max(0, min(1, value)) * 1000)
        return "\(thousandths / 1000).\(padded(thousandths % 1000, 3))"
    }
}
