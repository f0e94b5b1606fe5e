// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc
internal import Platform

/// A value of a property, of those that are read.
enum BusValue: Hashable, Sendable {
    case boolean(Bool)
    case number(UInt32)
    /// An unsigned number of 64 bits, such as a time in microseconds.
    case large(UInt64)
    case double(Double)
    /// A string or an object's path.
    case text(String)
    /// An array of bytes, such as a name in no known encoding.
    case bytes([UInt8])
}

/// Why a question on the bus has no answer.
enum BusError: Error, Hashable {
    /// There is no bus, or it is gone.
    case noBus
    /// The service is not there, or does not know what is asked.
    case refused
    /// It did not answer in time.
    case timeout
}

/// A connection to the system bus, of one thread.
///
/// Calls wait for their answers, two seconds at most, and start no service. Its address is that of
/// DBUS_SYSTEM_BUS_ADDRESS when that is set.
final class BusConnection {
    /// Whether something that a match is for came since it was asked last; in the order of the matches.
    private final class Arrivals {
        var have: [Bool] = []
        /// The booleans that came with it and were not asked for yet, the oldest first, a bounded number of them.
        var flags: [[Bool]] = []
    }

    private struct Match {
        let arrivals: Arrivals
        let index: Int
        let library: BusLibrary

        func take(_ message: BusLibrary.Message?) {
            arrivals.have[index] = true
            guard let message, arrivals.flags[index].count < flagLimit else { return }
            if case .boolean(let flag) = BusReader(library: library, message: message).value() {
                arrivals.flags[index].append(flag)
            }
        }
    }

    private let library: BusLibrary
    private let bus: BusLibrary.Bus
    private let arrivals = Arrivals()
    private var matches: [UnsafeMutablePointer<Match>] = []

    private static let callTimeout: UInt64 = 2_000_000
    private static let flagLimit = 64

    /// Connects; throws `.noBus` where there is none.
    init(_ library: BusLibrary) throws(BusError) {
        self.library = library
        var bus: BusLibrary.Bus?
        guard library.openSystem(&bus) >= 0, let bus else { throw .noBus }
        // Also of the calls that matches are made of.
        _ = library.setCallTimeout(bus, Self.callTimeout)
        self.bus = bus
    }

    deinit {
        _ = library.closeUnreference(bus)
        for match in matches {
            match.deinitialize(count: 1)
            match.deallocate()
        }
    }

    /// Asks for the signals that `rule` describes (dbus-daemon(1)); returns the number to ask ``takeArrival(_:)`` for.
    func watch(_ rule: String) throws(BusError) -> Int {
        let index = arrivals.have.count
        arrivals.have.append(false)
        arrivals.flags.append([])
        let match = UnsafeMutablePointer<Match>.allocate(capacity: 1)
        match.initialize(to: Match(arrivals: arrivals, index: index, library: library))
        matches.append(match)
        let handler: BusLibrary.Handler = { message, context, _ in
            context?.assumingMemoryBound(to: Match.self).pointee.take(message)
            return 0
        }
        try check(library.addMatch(bus, nil, rule, handler, match))
        return index
    }

    /// Whether a signal of a match came since the last time.
    func takeArrival(_ index: Int) -> Bool {
        defer { arrivals.have[index] = false }
        return arrivals.have[index]
    }

    /// The booleans with which signals of a match came since the last time, the oldest first.
    func takeFlags(_ index: Int) -> [Bool] {
        defer { arrivals.flags[index] = [] }
        return arrivals.flags[index]
    }

    /// Takes in what has come, a bounded number of messages; throws `.noBus` when the bus is gone.
    func process() throws(BusError) {
        for _ in 0..<1000 {
            let result = library.process(bus, nil)
            guard result >= 0 else { throw .noBus }
            if result == 0 { return }
        }
    }

    /// What to wait for with poll(2).
    var polled: pollfd {
        pollfd(fd: library.descriptor(bus), events: Int16(max(0, library.events(bus))), revents: 0)
    }

    /// When ``process()`` is due whatever comes, in seconds of CLOCK_MONOTONIC; nil: not by time alone.
    var dueAt: Double? {
        var time: UInt64 = 0
        guard library.timeout(bus, &time) >= 0, time != .max else { return nil }
        return Double(time) / 1e6
    }

    /// All properties of an object's interface that have a value of a basic type, or bytes.
    func properties(
        of interface: String,
        at path: String,
        service: String
    ) throws(BusError) -> [String: BusValue] {
        try ask(service, path, "org.freedesktop.DBus.Properties", "GetAll", interface) { reader in
            reader.properties()
        }
    }

    /// The object that a method without side effects names.
    func object(
        _ method: String,
        _ argument: String,
        interface: String,
        at path: String,
        service: String
    )
        throws(BusError) -> String?
    {
        try ask(service, path, interface, method, argument) { reader in
            if case .text(let path) = reader.value() { path } else { nil }
        }
    }

    /// A descriptor that a method hands over, from then on the caller's to close.
    func descriptor(
        _ method: String,
        _ arguments: [String],
        interface: String,
        at path: String,
        service: String
    ) throws(BusError) -> Int32 {
        let number = try ask(service, path, interface, method, arguments) { reader in
            // The message's own is closed with it.
            reader.descriptor().map { fcntl($0, F_DUPFD_CLOEXEC, 3) } ?? -1
        }
        guard number >= 0 else { throw .refused }
        return number
    }

    private func ask<Value>(
        _ service: String,
        _ path: String,
        _ interface: String,
        _ method: String,
        _ argument: String,
        _ read: (BusReader) -> Value
    ) throws(BusError) -> Value {
        try ask(service, path, interface, method, [argument], read)
    }

    private func ask<Value>(
        _ service: String,
        _ path: String,
        _ interface: String,
        _ method: String,
        _ arguments: [String],
        _ read: (BusReader) -> Value
    ) throws(BusError) -> Value {
        var request: BusLibrary.Message?
        try check(library.newMethodCall(bus, &request, service, path, interface, method))
        guard let request else { throw .refused }
        defer { _ = library.unreferenceMessage(request) }
        for argument in arguments { try check(library.appendText(request, CChar(UInt8(ascii: "s")), argument)) }
        try check(library.setAutoStart(request, 0))
        var reply: BusLibrary.Message?
        try check(library.call(bus, request, Self.callTimeout, nil, &reply))
        guard let reply else { throw .refused }
        defer { _ = library.unreferenceMessage(reply) }
        return read(BusReader(library: library, message: reply))
    }

    private func check(_ result: Int32) throws(BusError) {
        guard result < 0 else { return }
        switch -result {
        case ENOTCONN, ECONNRESET, EPIPE, ENOENT, ECONNREFUSED, ECHILD: throw .noBus
        case ETIMEDOUT: throw .timeout
        default: throw .refused
        }
    }
}

/// Reads a message from its beginning to its end.
struct BusReader {
    let library: BusLibrary
    let message: BusLibrary.Message

    private static let dictionary = CChar(UInt8(ascii: "a"))
    private static let entry = CChar(UInt8(ascii: "e"))
    private static let variant = CChar(UInt8(ascii: "v"))

    /// A dictionary from names to variants (`a{sv}`), without the values that are neither basic ones nor bytes.
    func properties() -> [String: BusValue] {
        var result: [String: BusValue] = [:]
        guard library.enterContainer(message, Self.dictionary, "{sv}") > 0 else { return result }
        while library.enterContainer(message, Self.entry, "sv") > 0 {
            if case .text(let name) = value(), let found = variantValue() { result[name] = found }
            guard library.exitContainer(message) >= 0 else { break }
        }
        return result
    }

    /// The value in a variant; nil for one that is not read, which is passed over.
    private func variantValue() -> BusValue? {
        var kind: CChar = 0
        var content: BusLibrary.Text?
        guard library.peekType(message, &kind, &content) > 0, kind == Self.variant, let content else { return nil }
        let type = String(cString: content)
        guard type == "ay" || type.utf8.count == 1 && "butdso".contains(type) else {
            _ = library.skip(message, "v")
            return nil
        }
        guard library.enterContainer(message, kind, content) > 0 else { return nil }
        defer { _ = library.exitContainer(message) }
        return type == "ay" ? bytes() : value()
    }

    private func bytes() -> BusValue? {
        var start: UnsafeRawPointer?
        var count = 0
        guard library.readArray(message, CChar(UInt8(ascii: "y")), &start, &count) >= 0 else { return nil }
        return .bytes([UInt8](UnsafeRawBufferPointer(start: start, count: count)))
    }

    /// A value of a basic type; nil at the end, and for a type that is not read.
    func value() -> BusValue? {
        var kind: CChar = 0
        guard library.peekType(message, &kind, nil) > 0 else { return nil }
        switch UInt8(bitPattern: kind) {
        case UInt8(ascii: "b"): return read(kind, Int32(0)).map { .boolean($0 != 0) }
        case UInt8(ascii: "u"): return read(kind, UInt32(0)).map { .number($0) }
        case UInt8(ascii: "t"): return read(kind, UInt64(0)).map { .large($0) }
        case UInt8(ascii: "d"): return read(kind, Double(0)).map { .double($0) }
        case UInt8(ascii: "s"), UInt8(ascii: "o"):
            return read(kind, BusLibrary.Text?.none).flatMap { $0 }.map { .text(String(cString: $0)) }
        default: return nil
        }
    }

    /// A descriptor, which belongs to the message.
    func descriptor() -> Int32? { read(CChar(UInt8(ascii: "h")), Int32(-1)).flatMap { $0 < 0 ? nil : $0 } }

    private func read<Value>(_ kind: CChar, _ initial: Value) -> Value? {
        var value = initial
        return withUnsafeMutableBytes(of: &value) { bytes in
            guard let place = bytes.baseAddress else { return false }
            return library.readBasic(message, kind, place) > 0
        } ? value : nil
    }
}
