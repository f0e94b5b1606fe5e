// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import ObjectStore

/// How a copy made at the remote is recognised when its answer was lost.
///
/// Its entity tag cannot be told beforehand: a server may make a new one, as S3 does for a copy of what was uploaded in
/// parts. Its metadata are those that were asked for, and its size is the source's.
struct CopyMark: Hashable {
    private let mode: UInt32
    private let uid: UInt32
    private let gid: UInt32
    private let modified: Timestamp
    private let device: UInt32
    private let extended: ExtendedAttributes
    private let size: Int64

    init(_ attributes: FileAttributes, size: Int64) {
        mode = attributes.mode
        uid = attributes.uid
        gid = attributes.gid
        modified = attributes.modified
        device = attributes.device
        extended = attributes.extended
        self.size = size
    }

    /// Reads what ``text`` wrote; nil for anything else.
    init?(_ text: String) {
        let words = text.split(separator: " ")
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
        let text = "copy \(mode) \(uid) \(gid) \(modified.nanoseconds) \(size)"
        guard extended.isEmpty else { return "\(text) \(device) \(extended.text)" }
        return device == 0 ? text : "\(text) \(device)"
    }

    /// Whether an object is the copy; its time may have been kept to the second only.
    func matches(_ found: ObjectStatus) -> Bool {
        guard let time = found.metadata.modified, found.version.size == size else { return false }
        let isSameTime = time == modified || (time.nanosecondsOfSecond == 0 && time.seconds == modified.seconds)
        return isSameTime && found.metadata.mode == mode && found.metadata.uid == uid && found.metadata.gid == gid
            && found.metadata.device ?? 0 == device && found.metadata.extended == extended
    }
}
