// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The URL of a web server's folder in one spelling, so that one folder makes one volume.
enum WebFolder {
    /// Scheme and host in lower case, without the scheme's own port, the path percent-encoded and with a slash at its
    /// end.
    static func normalized(_ text: String) throws(ConfigurationError) -> String {
        let isSecure = text.lowercased().hasPrefix("https://")
        let scheme = isSecure ? "https://" : "http://"
        let rest = text.dropFirst(scheme.count)
        guard !rest.contains("@") || rest.firstIndex(of: "/").map({ !rest[..<$0].contains("@") }) ?? false else {
            throw ConfigurationError(
                "remote",
                "must not hold a user name or password; put them into ~/.netrc, or username and password into "
                    + "[volume NAME] of the configuration file"
            )
        }
        guard !rest.contains(where: { $0 == "?" || $0 == "#" || $0 == "\\" }) else {
            throw ConfigurationError(text, "must be the URL of a folder, without ? and #")
        }
        var authority = rest.prefix { $0 != "/" }.lowercased()
        if authority.hasSuffix(isSecure ? ":443" : ":80") { authority.removeLast(isSecure ? 4 : 3) }
        guard isAuthority(authority) else {
            throw ConfigurationError(text, "must be http://HOST[:PORT]/PATH/ or https://HOST[:PORT]/PATH/")
        }
        return scheme + authority + (try path(rest.drop { $0 != "/" }, text))
    }

    private static func path(_ path: Substring, _ text: String) throws(ConfigurationError) -> String {
        var names = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        while names.last?.isEmpty == true { names.removeLast() }
        for name in names where name.isEmpty || [".", "..", "%2e", "%2e%2e"].contains(name.lowercased()) {
            throw ConfigurationError(text, "the path cannot hold an empty name, . or ..")
        }
        let path = names.map { encoded($0) + "/" }.joined()
        guard path.utf8.count <= 2_000 else { throw ConfigurationError(text, "the path is too long") }
        return "/" + path
    }

    /// Encodes what no URL may hold and keeps what is encoded.
    private static func encoded(_ name: Substring) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var bytes: [UInt8] = []
        for byte in name.utf8 {
            if byte <= 0x20 || byte >= 0x7F || [0x22, 0x3C, 0x3E, 0x5E, 0x60, 0x7B, 0x7C, 0x7D].contains(byte) {
                bytes += [0x25, digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func isAuthority(_ text: String) -> Bool {
        !text.isEmpty && !text.hasPrefix(":")
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
                case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: ":"): true
                case UInt8(ascii: "["), UInt8(ascii: "]"): true
                default: false
                }
            }
    }
}
