// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import BucketServer
internal import Glibc
internal import Platform

/// `moorage serve`: an embedded bucket over a folder.
enum ServeCommand {
    static let definition = CommandDefinition(
        name: "serve",
        operands: "DIRECTORY",
        operandCount: 1...1,
        flags: [
            FlagDefinition(
                "listen",
                "ADDRESS:PORT",
                "where to listen; default 127.0.0.1:9000, port 0 picks a free one"
            ),
            FlagDefinition("access-key", "ID", "require requests signed with this key"),
            FlagDefinition("foreground", nil, "stay in the foreground (it always does)"),
            FlagDefinition("no-sync", nil, "do not wait for the disk: faster, but a power cut can lose writes"),
            FlagDefinition("verbose", nil, "log every request on standard error"),
        ],
        summary: "serve the subfolders of a folder as buckets: S3 and resumable uploads",
        details: """
            The secret key comes from MOORAGE_SERVE_SECRET_KEY. Without --access-key only this
            machine is served, and requests need no signature. It ends with SIGINT or SIGTERM.
            """
    ) { arguments throws(CommandFailure) in
        var options = BucketServerOptions(directory: absolutePath(arguments.operands[0]))
        if let listen = arguments.value("listen") { try parse(listen, into: &options) } else { options.port = 9000 }
        options.accessKeyID = arguments.value("access-key")
        options.secretKey = getenv("MOORAGE_SERVE_SECRET_KEY").map { String(cString: $0) }
        unsetenv("MOORAGE_SERVE_SECRET_KEY")
        options.syncs = !arguments.has("no-sync")
        if arguments.has("verbose") { Log.level = .debug }
        return try run(options)
    }

    private static func run(_ options: BucketServerOptions) throws(CommandFailure) -> Int32 {
        FileDescriptor.raiseLimit()
        // Served files are for other programs too; the server's own are made with modes of their own.
        umask(CommandLineTool.inheritedMask)
        let signals = blockedStopSignals()
        let server: BucketServer
        do {
            server = try BucketServer(options: options)
        } catch {
            throw CommandFailure("serve: \(error)")
        }
        do {
            try Thread.detached(name: "signals") {
                waitForSignal(signals)
                server.stop()
            }
        } catch {
            throw CommandFailure("serve: \(error)")
        }
        Console.line("listening on \(server.url)")
        server.run()
        return 0
    }

    /// Reads `ADDRESS:PORT`, `[ADDRESS]:PORT` or `:PORT`.
    private static func parse(_ text: String, into options: inout BucketServerOptions) throws(CommandFailure) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            throw .usage("serve: --listen \(text): not ADDRESS:PORT")
        }
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
        if !host.isEmpty { options.host = String(host) }
        options.port = port
    }

    private static func absolutePath(_ path: String) -> String {
        guard let resolved = realpath(path, nil) else { return path }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    /// Keeps the signals that end the server from every thread, for one that waits for them.
    private static func blockedStopSignals() -> sigset_t {
        var signals = sigset_t()
        sigemptyset(&signals)
        for signal in [SIGINT, SIGTERM, SIGHUP] { sigaddset(&signals, signal) }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        return signals
    }

    private static func waitForSignal(_ signals: sigset_t) {
        var signals = signals
        var number: Int32 = 0
        while sigwait(&signals, &number) != 0 {}
    }
}
