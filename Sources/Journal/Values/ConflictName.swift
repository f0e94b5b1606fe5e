// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The name under which our version is kept beside a remote one.
package enum ConflictName {
    /// The longest name a folder holds, in bytes.
    private static let limit = 255

    /// `NAME (conflict 2026-11-20 06.15.42 HOST).EXT`, so that both sort together and open with the same program.
    ///
    /// `attempt` above 1 is added where the name is taken. A name that would be too long is cut before the mark,
    /// at the boundary of a character.
    package static func path(for path: ObjectKey, at time: Timestamp, host: String, attempt: Int = 1) -> ObjectKey {
        let date = time.civil
        let stamp =
            "\(padded(date.year, 4))-\(padded(date.month, 2))-\(padded(date.day, 2)) "
            + "\(padded(date.hour, 2)).\(padded(date.minute, 2)).\(padded(date.second, 2))"
        let number = attempt > 1 ? " \(attempt)" : ""
        let mark = Array(" (conflict \(stamp) \(cleaned(host))\(number))".utf8)
        let (stem, suffix) = split(path.name.bytes)
        let kept = cut(stem, to: max(1, limit - mark.count - suffix.count))
        return path.parent.appending(ObjectKey(bytes: kept + mark + suffix))
    }

    /// The part before the last dot and the rest; a leading dot begins no extension, nor does a long tail.
    private static func split(_ name: [UInt8]) -> (stem: [UInt8], suffix: [UInt8]) {
        guard let dot = name.lastIndex(of: UInt8(ascii: ".")), dot > 0, name.count - dot <= 32 else {
            return (name, [])
        }
        return (Array(name[..<dot]), Array(name[dot...]))
    }

    private static func cut(_ bytes: [UInt8], to count: Int) -> [UInt8] {
        guard bytes.count > count else { return bytes }
        var end = count
        while end > 0, bytes[end] & 0xC0 == 0x80 { end -= 1 }
        return Array(bytes[..<end])
    }

    private static func cleaned(_ host: String) -> String {
        String(host.prefix(40).map { $0 == "/" || $0 == "\0" ? "-" : $0 })
    }
}
