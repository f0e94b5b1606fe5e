// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import Glibc
internal import Platform

/// The life of a flusher: one a state folder, from the lock to the last commit.
package enum FlusherProcess {
    /// Runs a flusher until it has nothing to do, is told to stop, or gets SIGTERM or SIGINT.
    ///
    /// Call it before other threads exist: it directs the signals of all of them to one. Returns the exit status: 0
    /// when it ended as it should, or when another flusher was there already; 1 with a line in the log otherwise.
    package static func run(options: FlusherOptions, makeStore: @escaping StoreFactory) -> Int32 {
        Heap.keepSmall()
        let signals = TerminationSignals()
        // Whatever folder it was started in stays free to be unmounted.
        _ = chdir("/")
        let stopping = Monitor(false)
        do throws(SystemError) {
            guard let post = try takePost(options) else {
                Log.info("flusher", "another one runs")
                return options.socket == nil ? 0 : 1
            }
            try signals.onTermination { stopping.update { $0 = true } }
            try run(options, makeStore, post, stopping)
            withExtendedLifetime(post) {}
            return 0
        } catch {
            Log.error("flusher", error.description)
            return 1
        }
    }

    /// Nil when another flusher has it; one that the service manager starts takes the place of that.
    private static func takePost(_ options: FlusherOptions) throws(SystemError) -> FlusherPost? {
        guard options.socket != nil else { return try FlusherPost(options.directories) }
        return try FlusherPost.takenOver(options.directories)
    }

    /// Nil when the service manager listens in our place: it starts a flusher for whoever connects.
    private static func server(
        _ options: FlusherOptions,
        _ control: EngineControl
    ) throws(SystemError) -> ControlServer? {
        let path = options.directories.controlSocket
        guard let socket = options.socket else {
            if (try? UnixSocket.connect(to: path)) != nil { return nil }
            return try ControlServer(socketPath: path, program: options.program, handler: control)
        }
        if socket.path != path {
            Log.warning(
                "flusher",
                "the service manager listens at \(socket.path ?? "no path"), commands look at \(path)"
            )
        }
        return ControlServer(
            activated: socket.number,
            socketPath: path,
            program: options.program,
            handler: control
        )
    }

    private static func run(
        _ options: FlusherOptions,
        _ makeStore: @escaping StoreFactory,
        _ post: FlusherPost,
        _ stopping: Monitor<Bool>
    ) throws(SystemError) {
        let engine = Engine(options: options, makeStore: makeStore)
        let control = EngineControl(engine: engine) { stopping.update { $0 = true } }
        guard let server = try server(options, control) else {
            return Log.notice("flusher", "the service manager listens, and starts another one")
        }
        try engine.start(isFollowed: { server.isFollowed }, publish: { event in server.publish(event) })
        try server.start()
        post.announce()
        engine.service.ready()
        let metrics = serveMetrics(options, engine)
        defer { metrics?.stop() }
        Log.notice("flusher", "ready")
        waitForEnd(options, engine, server, post, stopping)
        engine.service.stopping(within: Engine.handoverPatience + 30)
        if engine.isHandingOver { engine.windDown() }
        // A request of a client in the middle of its answer is let go first: its connection closes.
        engine.stop(timeout: 10)
        server.stop()
        Log.notice("flusher", "ends")
    }

    /// Serves metrics where that is asked for; uploads do not depend on it.
    private static func serveMetrics(_ options: FlusherOptions, _ engine: Engine) -> MetricsServer? {
        guard let place = options.watching.metrics else { return nil }
        do throws(SystemError) {
            let server = try MetricsServer(place) { engine.metrics() }
            try server.start()
            Log.notice("metrics", "listening on \(server.address)")
            return server
        } catch {
            Log.error("metrics", "cannot be served: \(error)")
            return nil
        }
    }

    /// For how long the state folder must be gone, in seconds: it may be on its way to another place.
    private static let desertion = 2.0

    private static func waitForEnd(
        _ options: FlusherOptions,
        _ engine: Engine,
        _ server: ControlServer,
        _ post: FlusherPost,
        _ stopping: Monitor<Bool>
    ) {
        var lastClient = monotonicSeconds()
        var lastState = lastClient
        while stopping.wait(timeout: 0.5, until: { $0 ? true : nil }) == nil {
            post.restore(server)
            let now = monotonicSeconds()
            if server.clientCount > 0 { lastClient = now }
            if !post.isDeserted || engine.hasJournals { lastState = now }
            if now - lastState >= desertion {
                return Log.error("flusher", "\(options.directories.state) was deleted: there is nothing left to send")
            }
            guard let limit = options.exitWhenIdle else { continue }
            let idle = min(now - lastClient, engine.idleTime())
            // Whoever connects from now on is refused and starts the next flusher, which finds what came meanwhile.
            if idle >= limit, server.stopIfUnused() { return }
        }
    }
}

/// SIGTERM and SIGINT, taken by a thread of their own (sigwait(3)); SIGPIPE and SIGHUP ignored.
private struct TerminationSignals {
    private var set = sigset_t()

    /// Blocks the signals in this thread and in those it starts.
    init() {
        sigemptyset(&set)
        sigaddset(&set, SIGTERM)
        sigaddset(&set, SIGINT)
        pthread_sigmask(SIG_BLOCK, &set, nil)
        signal(SIGPIPE, SIG_IGN)
        signal(SIGHUP, SIG_IGN)
    }

    func onTermination(_ body: @escaping @Sendable () -> Void) throws(SystemError) {
        let set = set
        try Thread.detached(name: "signals", stackSize: 128 << 10) {
            var set = set
            var number: Int32 = 0
            while sigwait(&set, &number) == 0 { body() }
        }
    }
}
