// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc

/// A message on the user's desktop, by org.freedesktop.Notifications on the session bus.
///
/// See the Desktop Notifications Specification, version 1.2.
package enum DesktopNotification {
    private static let service = "org.freedesktop.Notifications"
    private static let path = "/org/freedesktop/Notifications"
    /// How long the service may take, in microseconds.
    private static let timeout: UInt64 = 5_000_000

    /// Whether there may be a session bus at all.
    package static var isPossible: Bool {
        getenv("DBUS_SESSION_BUS_ADDRESS") != nil || getenv("XDG_RUNTIME_DIR") != nil
    }

    /// Shows a message; false when nobody does.
    ///
    /// `body` is markup.
    package static func send(summary: String, body: String) -> Bool {
        guard isPossible, let library = BusLibrary.load() else { return false }
        var bus: BusLibrary.Bus?
        guard library.openUser(&bus) >= 0, let bus else { return false }
        defer { _ = library.closeUnreference(bus) }
        var request: BusLibrary.Message?
        guard library.newMethodCall(bus, &request, service, path, service, "Notify") >= 0, let request else {
            return false
        }
        defer { _ = library.unreferenceMessage(request) }
        guard append(to: request, summary, body, library) else { return false }
        var reply: BusLibrary.Message?
        guard library.call(bus, request, timeout, nil, &reply) >= 0 else { return false }
        _ = library.unreferenceMessage(reply)
        return true
    }

    /// The arguments `susssasa{sv}i`: program, what it replaces, icon, summary, body, actions, hints, time to live.
    private static func append(
        to message: BusLibrary.Message,
        _ summary: String,
        _ body: String,
        _ library: BusLibrary
    ) -> Bool {
        var (replaced, lifetime) = (UInt32(0), Int32(-1))
        func text(_ value: String) -> Bool { library.appendText(message, CChar(UInt8(ascii: "s")), value) >= 0 }
        func empty(_ content: String) -> Bool {
            library.openContainer(message, CChar(UInt8(ascii: "a")), content) >= 0
                && library.closeContainer(message) >= 0
        }
        return text("Moorage") && library.appendBasic(message, CChar(UInt8(ascii: "u")), &replaced) >= 0
            && text("") && text(summary) && text(body) && empty("s") && empty("{sv}")
            && library.appendBasic(message, CChar(UInt8(ascii: "i")), &lifetime) >= 0
    }
}
