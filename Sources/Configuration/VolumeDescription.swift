// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import FoundationEssentials
internal import Platform

/// Everything another process needs to reach a volume's remote, kept as `volume.json`.
///
/// Never a secret.
package struct VolumeDescription: Codable, Hashable, Sendable {
    /// The first 16 hexadecimal digits of SHA-256 over endpoint, bucket and prefix.
    package var id: String
    /// The section of the configuration file, when the volume was mounted by its name.
    package var name: String?
    package var bucket: String
    /// Without slashes at either end; empty for the whole bucket.
    package var prefix: String
    /// The server's URL without a path; nil for Amazon S3.
    package var endpoint: String?
    /// The folder of a web server, which has no bucket, prefix and endpoint.
    package var url: String?
    /// PEM files for a web server over TLS.
    package var authorityFile: String?
    package var clientCertificate: String?
    package var clientKey: String?
    package var region: String?
    package var profile: String?
    /// nil: path style when there is an endpoint.
    package var pathStyle: Bool?
    package var anonymous: Bool
    /// `auto`, `put`, `s3-multipart` or `ietf-resumable`.
    package var uploadProtocol: String
    /// Bytes; nil: chosen by the file's size.
    package var partSize: Int64?
    package var connectTimeout: Double
    package var stallTimeout: Double
    /// Seconds.
    package var quietPeriod: Double
    /// How long a request without an answer may still be carried out, in seconds; nil: the usual time.
    package var lateRequests: Double?
    /// Under which conditions uploads go; nil in a description of before: the defaults.
    package var conditions: UploadConditions?
    /// What is set for some paths of it, in the order of the file; nil: nothing.
    package var paths: [PathConditions]?
    /// How much of it may go over networks that cost, a day and a month, in bytes; nil: as far as all may.
    package var expensiveDaily: Int64?
    package var expensiveMonthly: Int64?
    package var metadataAge: Double
    /// Bytes.
    package var cacheSize: Int64
    package var cacheFree: Int64
    package var blockSize: Int64
    /// How much content that is not sent may take here, in bytes; nil: what the disk has.
    package var stagingLimit: Int64?
    /// Other folders than the user's, see `state_dir` and `cache_dir`.
    package var stateDirectory: String?
    package var cacheDirectory: String?
    /// Where the volume is mounted, or was last.
    package var mountpoint: String?

    /// Describes the volume that a remote and its settings name.
    ///
    /// `environment` gives `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_DEFAULT_REGION` and
    /// `AWS_PROFILE` where the settings are silent, so that the flusher does not depend on its own environment.
    package init(
        bucket: String,
        prefix: String,
        name: String? = nil,
        values: OptionValues,
        environment: [String: String]
    ) throws(ConfigurationError) {
        func variable(_ names: String...) -> String? {
            names.lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
        }
        let endpoint = try (values.text(.endpoint) ?? variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
            .map(EndpointURL.normalized)
        for option in [OptionName.username, .password, .bearerToken, .authorityFile, .clientCertificate, .clientKey]
        where values[option] != nil {
            throw ConfigurationError(option.rawValue, "is for http:// and https:// remotes, not for s3://\(bucket)")
        }
        self.init(bucket: bucket, prefix: prefix, name: name, endpoint: endpoint, values: values)
        region = values.text(.region) ?? variable("AWS_REGION", "AWS_DEFAULT_REGION")
        // Keys in the environment go before a profile named there.
        profile = values.text(.profile) ?? (variable("AWS_ACCESS_KEY_ID") == nil ? variable("AWS_PROFILE") : nil)
    }

    /// Describes the folder of a web server; `url` is as ``RemoteName`` has it.
    package init(url: String, name: String? = nil, values: OptionValues) throws(ConfigurationError) {
        self.init(bucket: "", prefix: "", name: name, endpoint: nil, values: values)
        self.url = url
        id = VolumeDescription.identifier(endpoint: url, bucket: "", prefix: "")
        authorityFile = values.text(.authorityFile)
        clientCertificate = values.text(.clientCertificate)
        clientKey = values.text(.clientKey)
        guard clientKey == nil || clientCertificate != nil else {
            throw ConfigurationError("client_key", "needs client_cert, the certificate that the key is for")
        }
    }

    private init(bucket: String, prefix: String, name: String?, endpoint: String?, values: OptionValues) {
        id = VolumeDescription.identifier(endpoint: endpoint, bucket: bucket, prefix: prefix)
        self.name = name
        self.bucket = bucket
        self.prefix = prefix
        self.endpoint = endpoint
        pathStyle = values[.pathStyle].map { _ in values.flag(.pathStyle) }
        anonymous = values.flag(.anonymous)
        uploadProtocol = values.text(.uploadProtocol) ?? "auto"
        partSize = values.number(.partSize)
        connectTimeout = values.seconds(.connectTimeout) ?? 10
        stallTimeout = values.seconds(.stallTimeout) ?? 30
        quietPeriod = values.seconds(.quietPeriod) ?? 2
        lateRequests = values.seconds(.lateRequests)
        conditions = UploadConditions(values)
        expensiveDaily = values.number(.expensiveDaily)
        expensiveMonthly = values.number(.expensiveMonthly)
        metadataAge = values.seconds(.metadataAge) ?? 10
        cacheSize = values.number(.cacheSize) ?? 10 << 30
        cacheFree = values.number(.cacheFree) ?? 1 << 30
        blockSize = values.number(.blockSize) ?? 32 << 10
        stagingLimit = values.number(.stagingLimit)
        stateDirectory = values.text(.stateDirectory)
        cacheDirectory = values.text(.cacheDirectory)
    }

    /// The remote as the user writes it: `s3://BUCKET[/PREFIX]` or the URL of a web server's folder.
    package var remote: String { url ?? RemoteName.s3(bucket: bucket, prefix: prefix).description }

    /// The server that is asked, as scheme, host and port, and how long it has for a connection: what says whether what
    /// one volume finds out of it holds for another.
    package var server: String {
        if let url {
            let parts = url.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false)
            let server = parts.count == 3 ? "\(parts[0])//\(parts[2].prefix { $0 != "/" })" : url
            return "\(server) \(connectTimeout)"
        }
        // Where the bucket is part of the host's name, each has an address of its own.
        return (endpoint ?? "https://s3.\(region ?? "").amazonaws.com")
            + (pathStyle ?? (endpoint != nil) ? "" : " \(bucket)") + " \(connectTimeout)"
    }

    /// Whether the remote's name is that of this machine itself.
    package var isOnThisMachine: Bool {
        guard let host = authorityHost else { return false }
        return host == "localhost" || isLoopback(host[...]) || host == "::1"
    }

    /// The host in the URL of the remote, or of its server: a name or an address, without brackets; nil when none is given.
    package var authorityHost: String? {
        let parts = (url ?? endpoint ?? "").split(separator: "/", maxSplits: 2)
        guard parts.count >= 2 else { return nil }
        let authority = parts[1]
        let host = authority.first == "[" ? authority.dropFirst().prefix { $0 != "]" } : authority.prefix { $0 != ":" }
        return String(host)
    }

    /// Whether a host is written as an address of 127.0.0.0/8.
    private func isLoopback(_ host: Substring) -> Bool {
        let numbers = host.split(separator: ".", omittingEmptySubsequences: false)
        return numbers.count == 4 && numbers[0] == "127" && numbers.allSatisfy { UInt8($0) != nil }
    }

    /// The id of the volume at these coordinates.
    package static func identifier(endpoint: String?, bucket: String, prefix: String) -> String {
        let text = "\(endpoint ?? "https://s3.amazonaws.com")\n\(bucket)\n\(prefix)"
        return Hexadecimal.encode(Array(Digest.of(Array(text.utf8), .sha256).prefix(8)))
    }
}

extension VolumeDescription {
    /// Reads a `volume.json`; nil when there is none.
    package init?(loading path: String) throws(ConfigurationError) {
        let bytes: [UInt8]
        do throws(SystemError) {
            guard try FileStatus.of(path) != nil else { return nil }
            bytes = try Files.read(path, limit: 65_536)
        } catch {
            throw ConfigurationError(path, error.description)
        }
        do {
            self = try JSONDecoder().decode(VolumeDescription.self, from: Data(bytes))
        } catch {
            throw ConfigurationError(path, "damaged description of a volume; mount the volume again to write it anew")
        }
    }

    /// Writes `volume.json` atomically (mode 0600); the caller holds the mount lock.
    package func save(to path: String) throws(ConfigurationError) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        do {
            let bytes = [UInt8](try encoder.encode(self)) + [0x0A]
            try Files.removeAbandoned(of: path)
            try Files.writeAtomically(path, bytes)
        } catch let error as SystemError {
            throw ConfigurationError(path, error.description)
        } catch {
            throw ConfigurationError(path, "cannot be written: \(error)")
        }
    }

    /// The registered volumes of a state folder by id; those with a damaged description are left out and named in `damaged`.
    package static func all(in directories: Directories) -> (volumes: [VolumeDescription], damaged: [String]) {
        var volumes: [VolumeDescription] = []
        var damaged: [String] = []
        let names = (try? Files.names(in: directories.volumes)) ?? []
        for name in names.map(\.string).sorted() {
            let path = directories.registration(of: name) + "/volume.json"
            do throws(ConfigurationError) {
                if let volume = try VolumeDescription(loading: path), volume.id == name { volumes.append(volume) }
            } catch {
                damaged.append(error.description)
            }
        }
        return (volumes, damaged)
    }
}

/// An S3 endpoint in one spelling, so that one server makes one volume.
package enum EndpointURL {
    /// Lower case, without the scheme's own port and without a slash at the end.
    package static func normalized(_ text: String) throws(ConfigurationError) -> String {
        var rest = text[...]
        while rest.last == "/" { rest.removeLast() }
        let lowered = rest.lowercased()
        guard let scheme = ["http://", "https://"].first(where: { lowered.hasPrefix($0) }) else {
            throw ConfigurationError("endpoint=\(redacted(text))", "must begin with http:// or https://")
        }
        var authority = String(lowered.dropFirst(scheme.count))
        guard !authority.contains("@") else {
            throw ConfigurationError("endpoint", "must not hold a user name or password; set AWS_ACCESS_KEY_ID instead")
        }
        guard !authority.isEmpty, !authority.utf8.contains(where: { $0 <= 0x20 || "/?#\\".utf8.contains($0) }) else {
            throw ConfigurationError(
                "endpoint=\(text)",
                "must be http://HOST[:PORT] or https://HOST[:PORT] without a path"
            )
        }
        let standard = scheme == "http://" ? ":80" : ":443"
        if authority.hasSuffix(standard) { authority.removeLast(standard.count) }
        return scheme + authority
    }

    private static func redacted(_ text: String) -> String { text.contains("@") ? "..." : text }
}
