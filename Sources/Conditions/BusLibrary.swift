// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc

/// The functions of sd-bus(3) that are used, found in libsystemd when the program runs.
///
/// Not linked: where there is no systemd (Alpine, many containers) there is no such library, and all else works.
struct BusLibrary: Sendable {
    typealias Bus = OpaquePointer
    typealias Message = OpaquePointer
    typealias Text = UnsafePointer<CChar>
    typealias Handler = @convention(c) (Message?, UnsafeMutableRawPointer?, UnsafeMutableRawPointer?) -> Int32

    let setCallTimeout: @convention(c) (Bus, UInt64) -> Int32
    let openSystem: @convention(c) (UnsafeMutablePointer<Bus?>) -> Int32
    let openUser: @convention(c) (UnsafeMutablePointer<Bus?>) -> Int32
    let closeUnreference: @convention(c) (Bus?) -> Bus?
    let addMatch:
        @convention(c) (Bus, UnsafeMutablePointer<OpaquePointer?>?, Text, Handler, UnsafeMutableRawPointer?) -> Int32
    let process: @convention(c) (Bus, UnsafeMutablePointer<Message?>?) -> Int32
    let descriptor: @convention(c) (Bus) -> Int32
    let events: @convention(c) (Bus) -> Int32
    let timeout: @convention(c) (Bus, UnsafeMutablePointer<UInt64>) -> Int32
    let newMethodCall: @convention(c) (Bus, UnsafeMutablePointer<Message?>, Text, Text, Text, Text) -> Int32
    let setAutoStart: @convention(c) (Message, Int32) -> Int32
    /// sd_bus_message_append_basic(3) of a string, which is its own argument.
    let appendText: @convention(c) (Message, CChar, Text) -> Int32
    /// The same of a number, whose place is its argument.
    let appendBasic: @convention(c) (Message, CChar, UnsafeRawPointer) -> Int32
    let openContainer: @convention(c) (Message, CChar, Text) -> Int32
    let closeContainer: @convention(c) (Message) -> Int32
    let call: @convention(c) (Bus, Message, UInt64, UnsafeMutableRawPointer?, UnsafeMutablePointer<Message?>) -> Int32
    let unreferenceMessage: @convention(c) (Message?) -> Message?
    let enterContainer: @convention(c) (Message, CChar, Text?) -> Int32
    let exitContainer: @convention(c) (Message) -> Int32
    let peekType: @convention(c) (Message, UnsafeMutablePointer<CChar>?, UnsafeMutablePointer<Text?>?) -> Int32
    let readBasic: @convention(c) (Message, CChar, UnsafeMutableRawPointer) -> Int32
    let readArray:
        @convention(c) (Message, CChar, UnsafeMutablePointer<UnsafeRawPointer?>, UnsafeMutablePointer<Int>) -> Int32
    let skip: @convention(c) (Message, Text?) -> Int32

    /// Loads the library; nil when it is not there, or lacks a function.
    static func load() -> BusLibrary? {
        guard let handle = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL) else { return nil }
        return try? BusLibrary(Symbols(handle: handle))
    }

    private struct Missing: Error {}

    private struct Symbols {
        let handle: UnsafeMutableRawPointer

        /// A function by its name, as the type of the place for it; the library's manual pages are the contract.
        func find<Function>(_ name: String) throws(Missing) -> Function {
            guard let symbol = dlsym(handle, "sd_bus_" + name) else { throw Missing() }
            return unsafeBitCast(symbol, to: Function.self)
        }
    }

    private init(_ symbols: Symbols) throws(Missing) {
        setCallTimeout = try symbols.find("set_method_call_timeout")
        openSystem = try symbols.find("open_system")
        openUser = try symbols.find("open_user")
        closeUnreference = try symbols.find("close_unref")
        addMatch = try symbols.find("add_match")
        process = try symbols.find("process")
        descriptor = try symbols.find("get_fd")
        events = try symbols.find("get_events")
        timeout = try symbols.find("get_timeout")
        newMethodCall = try symbols.find("message_new_method_call")
        setAutoStart = try symbols.find("message_set_auto_start")
        appendText = try symbols.find("message_append_basic")
        appendBasic = try symbols.find("message_append_basic")
        openContainer = try symbols.find("message_open_container")
        closeContainer = try symbols.find("message_close_container")
        call = try symbols.find("call")
        unreferenceMessage = try symbols.find("message_unref")
        enterContainer = try symbols.find("message_enter_container")
        exitContainer = try symbols.find("message_exit_container")
        peekType = try symbols.find("message_peek_type")
        readBasic = try symbols.find("message_read_basic")
        readArray = try symbols.find("message_read_array")
        skip = try symbols.find("message_skip")
    }
}
