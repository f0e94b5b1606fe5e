// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import HTTPWire
internal import S3Wire

/// A name that a server's listing of a folder has.
package struct ListedName: Hashable, Sendable {
    /// Relative to the folder, decoded: never empty, `.` or `..`, without a slash and NUL.
    package var name: ObjectKey
    package var isFolder: Bool
    /// Bytes; nil where the listing does not tell exactly.
    package var size: Int64?
    /// To the second; nil where the listing does not tell that exactly.
    package var modified: Timestamp?
    /// Strong; nil where the listing has none.
    package var entityTag: EntityTag?

    package init(
        name: ObjectKey,
        isFolder: Bool,
        size: Int64? = nil,
        modified: Timestamp? = nil,
        entityTag: EntityTag? = nil
    ) {
        self.name = name
        self.isFolder = isFolder
        self.size = size
        self.modified = modified
        self.entityTag = entityTag
    }

    /// Whether bytes can be a name in a folder.
    package static func isName(_ bytes: [UInt8]) -> Bool {
        !bytes.isEmpty && bytes != [0x2E] && bytes != [0x2E, 0x2E] && !bytes.contains(0x2F) && !bytes.contains(0)
    }

    /// The direct child of `folder` that a link leads to, and whether it is a folder.
    ///
    /// nil for the folder itself, its parents, anything deeper, other hosts, queries and fragments: whatever a page
    /// links to, nothing but the folder's own names comes of it.
    package static func child(_ reference: String, of folder: WebURL) -> (name: ObjectKey, isFolder: Bool)? {
        guard !reference.contains(where: { $0 == "?" || $0 == "#" }) else { return nil }
        guard let target = folder.resolving(encodingOddities(reference)), target.origin == folder.origin,
            let path = PercentEncoding.decode(target.path), let base = PercentEncoding.decode(folder.path),
            path.starts(with: base)
        else { return nil }
        // The slashes are counted before decoding: an encoded one is part of a name that no file system has.
        let segments = target.path.utf8.count { $0 == 0x2F } - folder.path.utf8.count { $0 == 0x2F }
        var name = Array(path.dropFirst(base.count))
        let isFolder = name.last == 0x2F
        if isFolder { name.removeLast() }
        guard segments == (isFolder ? 1 : 0), isName(name) else { return nil }
        return (ObjectKey(bytes: name), isFolder)
    }

    /// Servers leave characters unencoded that a URL cannot hold, such as spaces and letters beyond ASCII.
    private static func encodingOddities(_ reference: String) -> String {
        guard reference.utf8.contains(where: { $0 <= 0x20 || $0 >= 0x7F || $0 == 0x5C }) else { return reference }
        return reference.utf8.map { byte in
            byte <= 0x20 || byte >= 0x7F || byte == 0x5C
                ? PercentEncoding.encode([byte]) : String(UnicodeScalar(byte))
        }.joined()
    }
}

/// Why a folder's listing is not usable.
package struct ListingProblem: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}
