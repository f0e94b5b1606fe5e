// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import CurlTransport
internal import ObjectStore
internal import Platform
internal import Stores

extension VolumeDescription {
    /// How to connect to this volume's remote.
    var transportConfiguration: TransportConfiguration {
        var configuration = TransportConfiguration()
        configuration.certificateBundle = authorityFile
        configuration.clientCertificate = clientCertificate
        configuration.clientKey = clientKey
        return configuration
    }

    /// The folder of a web server.
    ///
    /// Its login is the section's of the configuration file, otherwise that of `NETRC` or `~/.netrc`.
    func webStore(
        _ url: String,
        environment: [String: String],
        transport: CurlTransport,
        instance: Instance
    ) throws(StoreError) -> HTTPStore {
        guard let root = WebURL(url) else { throw StoreError(.invalidKey, "\(url) is not a usable URL") }
        let places = instance.directories.places(of: self)
        var configuration = HTTPStoreConfiguration(root: root, spoolDirectory: places.cache + "/spool")
        let section = name.flatMap { instance.configuration.volume(named: $0) }
        configuration.credentials = try login(section?.values ?? OptionValues(), root, environment)
        configuration.hasClientCertificate = clientCertificate != nil
        configuration.spoolLimit = max(configuration.spoolLimit, cacheSize)
        configuration.connectTimeout = connectTimeout
        configuration.stallTimeout = stallTimeout
        configuration.metadataAge = metadataAge
        return HTTPStore(configuration: configuration, transport: transport)
    }

    private func login(
        _ values: OptionValues,
        _ root: WebURL,
        _ environment: [String: String]
    ) throws(StoreError) -> HTTPCredentials? {
        if let token = values.text(.bearerToken) { return .bearer(token: token) }
        if let user = values.text(.username) { return .basic(user: user, password: values.text(.password) ?? "") }
        let home = environment["HOME"].flatMap { $0.isEmpty ? nil : $0 + "/.netrc" }
        guard let path = environment["NETRC"].flatMap({ $0.isEmpty ? nil : $0 }) ?? home else { return nil }
        do throws(SystemError) {
            guard try FileStatus.of(path) != nil else { return nil }
            let text = String(decoding: try Files.read(path, limit: 1 << 20), as: UTF8.self)
            return Netrc(text: text).credentials(host: root.host)
        } catch {
            throw StoreError(.authentication, "\(path): \(error.reason)")
        }
    }
}
