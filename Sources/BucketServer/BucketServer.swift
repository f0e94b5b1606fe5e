// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import Platform
internal import S3Wire

/// What `moorage serve` is told.
package struct BucketServerOptions: Sendable {
    /// The folder whose subfolders are the buckets.
    package var directory: String
    /// A literal address or a name.
    package var host = "127.0.0.1"
    /// 0 takes a free one.
    package var port: UInt16 = 0
    /// The access key; nil serves unsigned requests, on loopback only.
    package var accessKeyID: String?
    package var secretKey: String?
    /// Whether acknowledged writes are made durable with fsync.
    package var syncs = true
    package var limits = HTTPLimits()

    package init(directory: String) {
        self.directory = directory
    }
}

/// Why a server cannot start; one line that names the cause and the next step.
package struct BucketServerError: Error, Sendable, CustomStringConvertible {
    package let description: String
}

/// A bucket over a folder: S3 and resumable uploads on one address.
package final class BucketServer: Sendable {
    private let storage: BucketStorage
    private let server: HTTPServer

    /// Opens the folder and the address; requests are answered from ``run()`` on.
    package init(options: BucketServerOptions) throws(BucketServerError) {
        let credentials = try Self.credentials(options)
        do {
            let address = try Self.address(options, isOpen: credentials == nil)
            storage = try BucketStorage(directory: options.directory, syncs: options.syncs)
            let authenticator = S3Authenticator(credentials: credentials)
            let statistics = ServerStatistics()
            let resumable = try ResumableUploadHandler(
                wrapping: S3Handler(storage: storage, authenticator: authenticator),
                authorizer: UploadAuthorizer(authenticator: authenticator, storage: storage),
                directory: storage.privateDirectory + "/resumable"
            )
            server = try HTTPServer(
                address: address,
                handler: StatisticsHandler(wrapping: resumable, statistics: statistics),
                limits: options.limits,
                statistics: statistics
            )
        } catch let error as BucketServerError {
            throw error
        } catch {
            throw BucketServerError(description: "\(error)")
        }
    }

    /// `http://ADDRESS:PORT` with the real port.
    package var url: String { "http://\(server.address)" }
    package var port: UInt16 { server.address.port }
    package var statistics: ServerStatistics { server.statistics }

    /// Answers requests until ``stop()`` is called on another thread.
    package func run() {
        let cleaner = UploadCleaner(storage: storage)
        cleaner.start()
        server.run()
        cleaner.stop()
    }

    /// Makes ``run()`` return once the running requests have ended or a short time has passed.
    package func stop() {
        server.stop()
    }

    private static func credentials(
        _ options: BucketServerOptions
    ) throws(BucketServerError) -> SigningCredentials? {
        guard let id = options.accessKeyID else { return nil }
        guard let secret = options.secretKey, !secret.isEmpty, !id.isEmpty else {
            throw BucketServerError(description: "--access-key needs a secret key in MOORAGE_SERVE_SECRET_KEY")
        }
        return SigningCredentials(accessKeyID: id, secretAccessKey: secret)
    }

    private static func address(_ options: BucketServerOptions, isOpen: Bool) throws -> SocketAddress {
        let addresses = try SocketAddress.resolve(host: options.host, port: options.port)
        guard let address = addresses.first(where: { !isOpen || $0.isLoopback }) else {
            throw BucketServerError(
                description: "\(options.host): without --access-key only loopback addresses are served; "
                    + "give --access-key ID and MOORAGE_SERVE_SECRET_KEY, or listen on 127.0.0.1"
            )
        }
        return address
    }
}

/// Answers `/_moorage/stats` to this machine, and hands everything else on.
private struct StatisticsHandler: HTTPRequestHandler {
    let wrapped: any HTTPRequestHandler
    let statistics: ServerStatistics

    init(wrapping wrapped: any HTTPRequestHandler, statistics: ServerStatistics) {
        self.wrapped = wrapped
        self.statistics = statistics
    }

    func handle(_ request: HTTPRequest, body: any HTTPRequestBody, responder: any HTTPResponder) {
        guard request.rawPath == "/_moorage/stats" else {
            return wrapped.handle(request, body: body, responder: responder)
        }
        guard request.isLoopback else { return responder.send(403, HTTPFields(), .none) }
        guard request.method == "GET" || request.method == "HEAD" else {
            return responder.send(405, HTTPFields([.init(name: "Allow", value: "GET, HEAD")]), .none)
        }
        let fields = HTTPFields([
            .init(name: "Content-Type", value: "application/json"), .init(name: "Cache-Control", value: "no-store"),
        ])
        responder.send(200, fields, .bytes(Array(statistics.json.utf8)))
    }
}

/// Removes multipart uploads that nobody has completed for a week.
private final class UploadCleaner: Sendable {
    private static let life = 7.0 * 86_400
    private let storage: BucketStorage
    private let isStopping = Monitor(false)

    init(storage: BucketStorage) {
        self.storage = storage
    }

    func start() {
        let started: Void? = try? Thread.detached(name: "serve-clean") { [self] in
            repeat {
                do {
                    try storage.removeUploads(begunBefore: Timestamp.now().advanced(bySeconds: -Self.life))
                } catch {
                    Log.warning("serve", "old uploads are not removed: \(error)")
                }
            } while isStopping.wait(timeout: 3600) { $0 ? true : nil } == nil
        }
        if started == nil { Log.warning("serve", "old uploads are not removed: no thread") }
    }

    func stop() {
        isStopping.update { $0 = true }
    }
}
