// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The media types (RFC 9110, 8.3.1) that the names of files tell.
///
/// What web sites and players are made of is in a table of our own, so that it is the same on all machines that write to
/// a bucket. The rest is what `/etc/mime.types` of this machine says.
package struct MediaTypes: Sendable {
    /// Those of this machine, read once.
    package static let system = MediaTypes(
        table: (try? Files.read("/etc/mime.types")).map { String(decoding: $0, as: UTF8.self) } ?? ""
    )

    /// By extension, in lower case.
    private var others: [String: String] = [:]

    /// Takes in a table in the form of mime.types(5): a type, white space, its extensions; `#` begins a comment.
    ///
    /// Lines that are not of that form, or tell no more than that a file has bytes, are skipped; of two for one
    /// extension the first counts.
    package init(table: String) {
        for line in table.split(whereSeparator: \.isNewline) {
            let words = line.prefix { $0 != "#" }.split(whereSeparator: \.isWhitespace)
            guard let type = words.first, Self.isType(type), !Self.meaningless.contains(type.lowercased()) else {
                continue
            }
            for name in words.dropFirst() where others[name.lowercased()] == nil {
                others[name.lowercased()] = String(type)
            }
        }
    }

    /// The type of what has this name, by its extension in any case; nil where that tells nothing.
    package func type(of path: ObjectKey) -> String? {
        let name = path.name.bytes
        guard let dot = name.lastIndex(of: UInt8(ascii: ".")), dot > 0, name.count - dot <= Self.longest else {
            return nil
        }
        let last = String(decoding: name[(dot + 1)...], as: UTF8.self).lowercased()
        return Self.common[last] ?? others[last]
    }

    /// What servers say of objects whose type nobody told them: as good as none.
    private static let meaningless: Set<String> = ["application/octet-stream", "binary/octet-stream"]

    /// The longest extension that is looked up, in bytes, its dot included.
    private static let longest = 32

    /// Whether a word can be sent as a type: two tokens and a slash, nothing else (RFC 9110, 5.6.2).
    private static func isType(_ word: Substring) -> Bool {
        let parts = word.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        return parts.count == 2 && word.utf8.count <= 255
            && parts.allSatisfy { !$0.isEmpty && $0.allSatisfy(isTokenByte) }
    }

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }

    /// The registry's types (iana.org/assignments/media-types) and, where it has none, the usual ones.
    private static let common: [String: String] = {
        var types: [String: String] = [:]
        for (type, extensions) in table {
            for name in extensions.split(separator: " ") { types[String(name)] = type }
        }
        return types
    }()

    private static let table: KeyValuePairs = [
        // Pages and what they are made of.
        "text/html": "html htm",
        "text/css": "css",
        "text/javascript": "js mjs",
        "application/json": "json map",
        "application/ld+json": "jsonld",
        "application/geo+json": "geojson",
        "application/manifest+json": "webmanifest",
        "application/wasm": "wasm",
        "application/xml": "xml xsd xsl",
        "application/xhtml+xml": "xhtml",
        "application/xslt+xml": "xslt",
        "application/rss+xml": "rss",
        "application/atom+xml": "atom",
        "font/woff": "woff",
        "font/woff2": "woff2",
        "font/ttf": "ttf",
        "font/otf": "otf",
        // Text.
        "text/plain": "txt text log",
        "text/markdown": "md markdown",
        "text/csv": "csv",
        "text/tab-separated-values": "tsv",
        "text/calendar": "ics",
        "text/vcard": "vcf",
        "text/vtt": "vtt",
        "application/yaml": "yaml yml",
        "application/rtf": "rtf",
        "message/rfc822": "eml",
        // Pictures.
        "image/png": "png",
        "image/apng": "apng",
        "image/jpeg": "jpg jpeg jpe",
        "image/gif": "gif",
        "image/webp": "webp",
        "image/avif": "avif",
        "image/heic": "heic",
        "image/heif": "heif",
        "image/jxl": "jxl",
        "image/svg+xml": "svg",
        "image/vnd.microsoft.icon": "ico",
        "image/bmp": "bmp",
        "image/tiff": "tif tiff",
        // Sound and films.
        "audio/mpeg": "mp3",
        "audio/mp4": "m4a",
        "audio/aac": "aac",
        "audio/ogg": "oga ogg opus spx",
        "audio/flac": "flac",
        "audio/wav": "wav",
        "audio/midi": "mid midi",
        "video/mp4": "mp4 m4v mp4v",
        "video/mp2t": "ts m2ts mts",
        "video/iso.segment": "m4s",
        "video/webm": "webm",
        "video/matroska": "mkv",
        "video/ogg": "ogv",
        "video/mpeg": "mpeg mpg mpe",
        "video/quicktime": "mov qt",
        "video/x-msvideo": "avi",
        "video/3gpp": "3gp",
        "application/vnd.apple.mpegurl": "m3u8",
        "application/dash+xml": "mpd",
        // Documents.
        "application/pdf": "pdf",
        "application/epub+zip": "epub",
        "application/msword": "doc",
        "application/vnd.ms-excel": "xls",
        "application/vnd.ms-powerpoint": "ppt",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
        "application/vnd.oasis.opendocument.text": "odt",
        "application/vnd.oasis.opendocument.spreadsheet": "ods",
        "application/vnd.oasis.opendocument.presentation": "odp",
        // Archives.
        "application/zip": "zip",
        "application/gzip": "gz tgz",
        "application/zstd": "zst",
        "application/x-bzip2": "bz2",
        "application/x-xz": "xz",
        "application/x-tar": "tar",
        "application/x-7z-compressed": "7z",
        "application/vnd.rar": "rar",
        "application/java-archive": "jar",
        "application/vnd.debian.binary-package": "deb",
    ]
}
