// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform
internal import Policy

/// What the watcher's thread goes through again and again.
final class WatchLoop {
    private struct Watched {
        let service: BusService
        /// The numbers of its matches on the bus.
        var matches: [Int] = []
        /// When to ask it again, in seconds of uptime.
        var dueAt = 0.0
        var askedAt = -1.0
    }

    /// No source is asked more often than this, in seconds, however many signals come.
    private static let shortestPause = 0.25
    /// Everything is asked again after this time, in seconds.
    private static let longestPause = 60.0

    private let supplies: SupplyReader
    private let wakeUp: Int32
    private let report: @Sendable (MachineFacts, Bool) -> Void
    private let library = BusLibrary.load()
    private let routeMonitor = KernelMonitor.routes()
    private let deviceMonitor = KernelMonitor.devices()
    private let way = Way()
    /// The interfaces that remotes are reached through.
    private let interfaces: () -> Set<String>
    private var bus: BusConnection?
    private var services: [Watched]
    private var state: ConditionState
    private var reported: MachineFacts?
    private var connectAt = 0.0
    private var failures = 0
    private var kernelDueAt = 0.0
    private var kernelAskedAt = -1.0
    private var picture: NetworkPicture?
    private var hasRouteNews = false

    /// Where our traffic leaves, as the kernel said last.
    private final class Way {
        var now = Ways()
    }

    init(
        _ state: ConditionState,
        supplies: SupplyReader,
        wakeUp: Int32,
        interfaces: @escaping () -> Set<String>,
        report: @escaping @Sendable (MachineFacts, Bool) -> Void
    ) {
        self.state = state
        self.interfaces = interfaces
        self.supplies = supplies
        self.wakeUp = wakeUp
        self.report = report
        let way = way
        services = BusService.all { way.now }.map { Watched(service: $0) }
    }

    /// Asks who is due, tells what came of it, and sleeps until there is news.
    func turn() {
        askKernel()
        // A bus that hangs must not keep back what the kernel says.
        if reported == nil { report(state.facts, false) }
        connect()
        for index in services.indices where services[index].dueAt <= monotonicSeconds() { ask(index) }
        state.advance(to: .now)
        let facts = state.facts
        if facts != reported { report(facts, true) }
        reported = facts
        sleep()
    }

    // MARK: asking

    private func askKernel() {
        guard kernelDueAt <= monotonicSeconds() else { return }
        kernelAskedAt = monotonicSeconds()
        kernelDueAt = kernelAskedAt + Self.longestPause
        state.observe(.route(RouteReader.read()), at: .now)
        state.observe(.supplies(supplies.read()), at: .now)
        if hasRouteNews { state.noteRoutes() }
        hasRouteNews = false
        let picture = NetworkPicture()
        if picture != self.picture { state.noteNetworkChange() }
        self.picture = picture
        takeWays()
    }

    /// Takes in through which interfaces traffic goes now.
    private func takeWays() {
        let usual = RouteReader.interface()
        let ways = Ways(usual: usual, others: interfaces().filter { $0 != usual })
        guard ways != way.now else { return }
        way.now = ways
        state.watch(ways.others, at: .now())
        // Other devices are to be asked for.
        for index in services.indices { services[index].dueAt = 0 }
    }

    /// Connects to the bus, now and then when there is none.
    private func connect() {
        guard bus == nil, let library, connectAt <= monotonicSeconds() else { return }
        do throws(BusError) {
            let bus = try BusConnection(library)
            for index in services.indices {
                services[index].matches = try Self.watch(services[index].service, bus)
                services[index].dueAt = 0
            }
            self.bus = bus
            failures = 0
        } catch {
            lose()
        }
    }

    private static func watch(_ service: BusService, _ bus: BusConnection) throws(BusError) -> [Int] {
        let owner = "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='\(service.name)'"
        var matches = [try bus.watch(owner)]
        for interface in service.interfaces {
            let properties = "interface='org.freedesktop.DBus.Properties',member='PropertiesChanged'"
            matches.append(try bus.watch("type='signal',\(properties),arg0='\(interface)'"))
        }
        return matches
    }

    private func ask(_ index: Int) {
        let service = services[index].service
        services[index].askedAt = monotonicSeconds()
        services[index].dueAt = services[index].askedAt + Self.longestPause
        do throws(BusError) {
            for observation in try service.read(bus) { state.observe(observation, at: .now) }
        } catch {
            switch error {
            // It is there and busy: what it said last holds until it says something else.
            case .timeout: return Log.info("conditions", "\(service.name) does not answer")
            case .refused: tellAbsence(of: service)
            case .noBus: lose()
            }
        }
    }

    private func tellAbsence(of service: BusService) {
        for observation in (try? service.read(nil)) ?? [] { state.observe(observation, at: .now) }
    }

    /// The bus is gone, or there is none: it is looked for again after a pause that grows to a minute.
    private func lose() {
        bus = nil
        failures = min(failures + 1, 6)
        connectAt = monotonicSeconds() + min(Double(1 << failures), Self.longestPause)
        for index in services.indices {
            tellAbsence(of: services[index].service)
            services[index].dueAt = monotonicSeconds() + Self.longestPause
        }
    }

    // MARK: sleeping

    private func sleep() {
        var polled = [pollfd(fd: wakeUp, events: Int16(POLLIN), revents: 0)]
        // A negative number is passed over by poll(2).
        polled.append(routeMonitor?.polled ?? pollfd(fd: -1, events: 0, revents: 0))
        polled.append(deviceMonitor?.polled ?? pollfd(fd: -1, events: 0, revents: 0))
        polled.append(bus?.polled ?? pollfd(fd: -1, events: 0, revents: 0))
        let pause = max(0, min(nextDue() - monotonicSeconds(), Self.longestPause))
        _ = poll(&polled, nfds_t(polled.count), Int32((pause * 1000).rounded(.up)))
        takeNews()
    }

    private func nextDue() -> Double {
        var due = [kernelDueAt] + services.map(\.dueAt)
        if bus == nil, library != nil { due.append(connectAt) }
        if let settles = state.settlesAt { due.append(settles) }
        if let time = bus?.dueAt { due.append(time) }
        return due.min() ?? 0
    }

    private func takeNews() {
        var number: UInt64 = 0
        // eventfd(2): reading takes what was written; nothing was: it says so at once.
        if read(wakeUp, &number, MemoryLayout.size(ofValue: number)) > 0 { kernelDueAt = 0 }
        let hasRoutes = routeMonitor?.drain() ?? false
        let hasDevices = deviceMonitor?.drain() ?? false
        if hasRoutes { hasRouteNews = true }
        if hasRoutes || hasDevices { kernelDueAt = min(kernelDueAt, kernelAskedAt + Self.shortestPause) }
        guard let bus else { return }
        do throws(BusError) {
            try bus.process()
        } catch {
            return lose()
        }
        for index in services.indices {
            let news = services[index].matches.filter { bus.takeArrival($0) }
            guard !news.isEmpty else { continue }
            services[index].dueAt = min(services[index].dueAt, services[index].askedAt + Self.shortestPause)
        }
    }
}
