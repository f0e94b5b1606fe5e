// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import ObjectStore

/// How a copy made at the remote is recognised when its answer was lost.
///
/// Its metadata are those that were asked for, and its size is the source's. So is its entity tag where that is one of the
/// content: else the server makes a new one, as S3 does for a copy of what was uploaded in parts or is encrypted.
struct CopyMark: Hashable {
    private let mode: UInt32
    private let uid: UInt32
    private let gid: UInt32
    private let modified: Timestamp
    private let device: UInt32
    private let extended: ExtendedAttributes
    private let size: Int64
    /// The source's tag where it has the form of one of the content; nil: the copy's tag tells nothing.
    private let tag: String?

    /// `source`: what is copied; nil for what is no copy, and known by its attributes alone.
    init(_ attributes: FileAttributes, size: Int64, of source: ObjectVersion? = nil) {
        mode = attributes.mode
        uid = attributes.uid
        gid = attributes.gid
        modified = attributes.modified
        device = attributes.device
        extended = attributes.extended
        self.size = size
        tag = source?.tagOfContent
    }

    /// Reads what ``text`` wrote, also before it had a tag; nil for anything else.
    init?(_ text: String) {
        var words = text.split(separator: " ")
        tag = words.last.flatMap { Self.tag(fromWord: $0) }
        if tag != nil { words.removeLast() }
        guard (6...8).contains(words.count), words[0] == "copy", let mode = UInt32(words[1]),
            let uid = UInt32(words[2]), let gid = UInt32(words[3]), let modified = Int64(words[4]),
            let size = Int64(words[5])
        else { return nil }
        self.mode = mode
        self.uid = uid
        self.gid = gid
        self.modified = Timestamp(nanoseconds: modified)
        device = words.count > 6 ? UInt32(words[6]) ?? 0 : 0
        extended = words.count > 7 ? ExtendedAttributes(text: String(words[7])) ?? .none : .none
        self.size = size
    }

    /// The form kept in the journal, in the place of an entity tag.
    var text: String {
        var text = "copy \(mode) \(uid) \(gid) \(modified.nanoseconds) \(size)"
        if device != 0 || !extended.isEmpty { text += " \(device)" }
        if !extended.isEmpty { text += " \(extended.text)" }
        return text + (tag.map { " " + Self.prefix + $0 } ?? "")
    }

    private static let prefix = "of="

    private static func tag(fromWord word: Substring) -> String? {
        guard word.hasPrefix(prefix) else { return nil }
        let tag = String(word.dropFirst(prefix.count))
        return EntityTag(opaque: tag).isDigestOfWhole ? tag : nil
    }

    /// Whether an object is the copy, as far as an object can be told from others.
    func matches(_ found: ObjectStatus) -> Bool {
        guard let tag, found.isTagOfContent else { return looksLike(found) }
        return looksLike(found) && found.version.tagOfContent == tag
    }

    /// Whether an object has the copy's size and attributes, whatever its bytes are; its time may have been kept to the
    /// second only.
    func looksLike(_ found: ObjectStatus) -> Bool {
        guard let time = found.metadata.modified, found.version.size == size else { return false }
        let isSameTime = time == modified || (time.nanosecondsOfSecond == 0 && time.seconds == modified.seconds)
        return isSameTime && found.metadata.mode == mode && found.metadata.uid == uid && found.metadata.gid == gid
            && found.metadata.device ?? 0 == device && found.metadata.extended == extended
    }
}
