// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base

/// What the user calls a remote: `s3://BUCKET[/PREFIX]`, `http(s)://HOST[:PORT]/PATH/`, or the name of a section of
/// the configuration file.
package enum RemoteName: Hashable, Sendable, CustomStringConvertible {
    case s3(bucket: String, prefix: String)
    /// A folder of a web server: the URL in one spelling, with a slash at its end.
    case http(url: String)
    case section(String)

    /// Reads and checks a remote's name; the prefix loses slashes at both ends.
    package init(_ text: String) throws(ConfigurationError) {
        if text.hasPrefix("s3://") {
            self = try RemoteName.parseS3(text)
        } else if RemoteName.isWeb(text) {
            self = .http(url: try WebFolder.normalized(text))
        } else if text.contains("://") {
            throw ConfigurationError(
                text,
                "this kind of remote is not supported; use s3://BUCKET[/PREFIX] or http(s)://HOST/PATH/"
            )
        } else {
            guard RemoteName.isSectionName(text) else {
                throw ConfigurationError(
                    text,
                    "not a remote: use s3://BUCKET[/PREFIX], http(s)://HOST/PATH/ or the name of a section of the "
                        + "configuration file"
                )
            }
            self = .section(text)
        }
    }

    /// Whether the text is meant as the URL of a web server's folder.
    package static func isWeb(_ text: String) -> Bool {
        let lowered = text.prefix(8).lowercased()
        return lowered.hasPrefix("http://") || lowered.hasPrefix("https://")
    }

    private static func parseS3(_ text: String) throws(ConfigurationError) -> RemoteName {
        let rest = text.dropFirst("s3://".count)
        let bucket = String(rest.prefix { $0 != "/" })
        guard isBucketName(bucket) else {
            let reason = bucket.isEmpty ? "no bucket is named" : "\(bucket) is not the name of a bucket"
            throw ConfigurationError(text, "\(reason); use s3://BUCKET[/PREFIX]")
        }
        let parts = rest.dropFirst(bucket.count).split(separator: "/", omittingEmptySubsequences: false)
        var names = parts[...]
        while names.first?.isEmpty == true { names = names.dropFirst() }
        while names.last?.isEmpty == true { names = names.dropLast() }
        for name in names where name.isEmpty || name == "." || name == ".." || name.utf8.contains(0) {
            throw ConfigurationError(text, "a prefix cannot hold an empty name, . or ..")
        }
        let prefix = names.joined(separator: "/")
        guard prefix.utf8.count <= 900 else { throw ConfigurationError(text, "the prefix is longer than 900 bytes") }
        return .s3(bucket: bucket, prefix: prefix)
    }

    /// Whether S3, or one of its older rules that other servers keep, allows this bucket name.
    package static func isBucketName(_ name: String) -> Bool {
        let length = name.utf8.count
        guard length >= 3, length <= 255, name.utf8.first != UInt8(ascii: "."), name.utf8.first != UInt8(ascii: "-")
        else {
            return false
        }
        return !name.contains("..") && isSectionName(name)
    }

    static func isSectionName(_ name: String) -> Bool {
        !name.isEmpty
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
                case UInt8(ascii: "0")...UInt8(ascii: "9"): true
                case UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."): true
                default: false
                }
            }
    }

    package var description: String {
        switch self {
        case .s3(let bucket, let prefix): prefix.isEmpty ? "s3://\(bucket)" : "s3://\(bucket)/\(prefix)"
        case .http(let url): url
        case .section(let name): name
        }
    }
}
