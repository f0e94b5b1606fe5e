// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Where something listens that only this machine is to reach.
package enum ListeningPlace: Hashable, Sendable {
    /// A unix socket's absolute path.
    case path(String)
    /// A loopback address, 127.0.0.1 or ::1, and a port; 0: any that is free.
    case loopback(isVersion6: Bool, port: UInt16)

    /// Reads `/PATH`, `127.0.0.1:PORT`, `[::1]:PORT` or `localhost:PORT`; nil for anything else, such as another address.
    package init?(_ text: String) {
        if text.hasPrefix("/") {
            guard text.utf8.count < 4096, text.utf8.count > 1 else { return nil }
            self = .path(text)
            return
        }
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            return nil
        }
        switch text[..<colon] {
        case "127.0.0.1", "localhost": self = .loopback(isVersion6: false, port: port)
        case "[::1]": self = .loopback(isVersion6: true, port: port)
        default: return nil
        }
    }
}
