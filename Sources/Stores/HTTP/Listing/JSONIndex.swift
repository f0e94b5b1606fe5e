// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import S3Wire

/// Index pages in JSON: nginx's `autoindex_format json` and caddy's `file_server browse`.
package enum JSONIndex {
    /// The names that a page tells.
    ///
    /// nil when the document is JSON, but no index of a folder. Names that no file system can have are left out.
    package static func parse(_ document: [UInt8]) throws(ListingProblem) -> [ListedName]? {
        guard case .array(let items) = try JSONValue(document) else { return nil }
        var names: [ListedName] = []
        for item in items {
            guard let found = nginx(item) ?? caddy(item) else { return nil }
            if ListedName.isName(found.name.bytes) { names.append(found) }
        }
        return names
    }

    /// `{"name": "a", "type": "file", "mtime": "Wed, 01 Jan 2020 00:00:00 GMT", "size": 1}`; no size with folders.
    private static func nginx(_ item: JSONValue) -> ListedName? {
        guard let name = item["name"]?.bytes, let type = item["type"]?.bytes, let time = item["mtime"]?.bytes else {
            return nil
        }
        return ListedName(
            name: ObjectKey(bytes: name),
            isFolder: type == Array("directory".utf8),
            size: item["size"]?.number,
            modified: HTTPDate.parse(String(decoding: time, as: UTF8.self))
        )
    }

    /// `{"name": "d/", "size": 1, "url": "./d/", "mod_time": "2020-01-01T00:00:00.123Z", "is_dir": true, ...}`.
    private static func caddy(_ item: JSONValue) -> ListedName? {
        guard var name = item["name"]?.bytes, let size = item["size"]?.number, let time = item["mod_time"]?.bytes,
            case .boolean(let isFolder)? = item["is_dir"]
        else { return nil }
        if isFolder, name.last == 0x2F { name.removeLast() }
        let modified = time.count >= 20 ? Timestamp(s3: String(decoding: time, as: UTF8.self)) : nil
        return ListedName(
            name: ObjectKey(bytes: name),
            isFolder: isFolder,
            size: isFolder ? nil : size,
            modified: modified.map { Timestamp(seconds: $0.seconds) }
        )
    }
}
