// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc
internal import Platform

/// What the sleep watcher's thread goes through again and again.
final class SleepLoop {
    private static let name = "org.freedesktop.login1"
    private static let path = "/org/freedesktop/login1"
    private static let interface = "org.freedesktop.login1.Manager"
    /// The longest sleep, in seconds, and the longest pause before the bus is looked for again.
    private static let longestPause = 60.0

    private struct Matches {
        var sleep: Int
        var shutdown: Int
        var owner: Int
    }

    private let library: BusLibrary
    private let wakeUp: Int32
    private let onHold: @Sendable (Preparation) -> Void
    private let onGoOn: @Sendable () -> Void
    private var state = SleepGuard()
    private var bus: BusConnection?
    private var matches: Matches?
    /// The descriptors that are the locks: closing them gives them back.
    private var locks: [Int32] = []
    private var connectAt = 0.0
    private var failures = 0

    init(
        _ library: BusLibrary,
        wakeUp: Int32,
        onHold: @escaping @Sendable (Preparation) -> Void,
        onGoOn: @escaping @Sendable () -> Void
    ) {
        self.library = library
        self.wakeUp = wakeUp
        self.onHold = onHold
        self.onGoOn = onGoOn
    }

    /// Takes in what came, does what follows from it, and sleeps until there is news.
    func turn(_ events: [SleepGuard.Event]) {
        connect()
        for event in events { handle(event) }
        handle(.time)
        sleep()
        listen()
    }

    /// Gives the locks back.
    func end() {
        perform(.release)
    }

    // MARK: the bus

    private func connect() {
        guard bus == nil, connectAt <= monotonicSeconds() else { return }
        do throws(BusError) {
            let bus = try BusConnection(library)
            let signal = "type='signal',sender='\(Self.name)',path='\(Self.path)',interface='\(Self.interface)',member="
            let owner = "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='\(Self.name)'"
            matches = Matches(
                sleep: try bus.watch(signal + "'PrepareForSleep'"),
                shutdown: try bus.watch(signal + "'PrepareForShutdown'"),
                owner: try bus.watch(owner)
            )
            self.bus = bus
            failures = 0
            meet()
        } catch {
            lose()
        }
    }

    /// Finds out whether logind is there, and how long it waits.
    private func meet() {
        let properties = try? bus?.properties(of: Self.interface, at: Self.path, service: Self.name)
        if case .large(let delay) = properties?["InhibitDelayMaxUSec"] { state.setDelay(Double(delay) / 1e6) }
        handle(.manager(isThere: properties != nil))
        // What was announced before we listened.
        if properties?["PreparingForSleep"] == .boolean(true) { handle(.preparing(.sleep, true)) }
        if properties?["PreparingForShutdown"] == .boolean(true) { handle(.preparing(.shutdown, true)) }
    }

    private func lose() {
        bus = nil
        matches = nil
        failures = min(failures + 1, 6)
        connectAt = monotonicSeconds() + min(Double(1 << failures), Self.longestPause)
        handle(.manager(isThere: false))
    }

    private func listen() {
        guard let bus, let matches else { return }
        do throws(BusError) {
            try bus.process()
        } catch {
            return lose()
        }
        for isTrue in bus.takeFlags(matches.sleep) { handle(.preparing(.sleep, isTrue)) }
        for isTrue in bus.takeFlags(matches.shutdown) { handle(.preparing(.shutdown, isTrue)) }
        _ = (bus.takeArrival(matches.sleep), bus.takeArrival(matches.shutdown))
        if bus.takeArrival(matches.owner) {
            handle(.manager(isThere: false))
            meet()
        }
    }

    private func sleep() {
        var polled = [pollfd(fd: wakeUp, events: Int16(POLLIN), revents: 0)]
        polled.append(bus?.polled ?? pollfd(fd: -1, events: 0, revents: 0))
        var due = [monotonicSeconds() + Self.longestPause, bus?.dueAt, state.dueAt, bus == nil ? connectAt : nil]
        due = due.filter { $0 != nil }
        let pause = max(0, (due.compactMap { $0 }.min() ?? 0) - monotonicSeconds())
        _ = poll(&polled, nfds_t(polled.count), Int32((pause * 1000).rounded(.up)))
        var count: UInt64 = 0
        _ = read(wakeUp, &count, MemoryLayout<UInt64>.size)
    }

    // MARK: actions

    private func handle(_ event: SleepGuard.Event) {
        for action in state.handle(event, now: monotonicSeconds()) { perform(action) }
    }

    private func perform(_ action: SleepGuard.Action) {
        switch action {
        case .inhibit(let why): inhibit(why)
        case .release:
            for lock in locks { close(lock) }
            locks = []
        case .hold(let what): onHold(what)
        case .goOn: onGoOn()
        }
    }

    private func inhibit(_ why: String) {
        do throws(BusError) {
            guard let bus else { throw .noBus }
            // The new ones before the old ones go: there is no moment without.
            let old = locks
            defer { for lock in old { close(lock) } }
            locks = []
            // One of both at once is given to nobody without a session.
            for what in ["sleep", "shutdown"] {
                locks.append(
                    try bus.descriptor(
                        "Inhibit",
                        [what, "Moorage", why, "delay"],
                        interface: Self.interface,
                        at: Self.path,
                        service: Self.name
                    )
                )
            }
        } catch {
            Log.info("conditions", "logind gives no lock: \(error)")
            perform(.release)
            handle(.refused)
        }
    }
}
