// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import CurlTransport
internal import ObjectStore
internal import Stores

extension VolumeDescription {
    /// The remote of this volume; nothing is sent yet.
    ///
    /// `environment` may hold `AWS_*` credentials; it goes before the AWS files unless a profile is named.
    ///
    /// `scratchOwner` is needed where something is written: see ``VolumePlaces/owner``.
    func store(
        environment: [String: String],
        transport: CurlTransport,
        instance: Instance,
        scratchOwner: String? = nil
    ) throws(StoreError) -> any ObjectStore {
        guard let url else {
            return try bucketStore(environment: environment, transport: transport, scratchOwner: scratchOwner)
        }
        return try webStore(url, environment: environment, transport: transport, instance: instance)
    }

    private func bucketStore(
        environment: [String: String],
        transport: CurlTransport,
        scratchOwner: String?
    ) throws(StoreError) -> S3Store {
        var configuration = S3StoreConfiguration(
            endpoint: endpoint,
            region: region,
            bucket: bucket,
            prefix: ObjectKey(prefix),
            isPathStyle: pathStyle
        )
        configuration.scratchOwner = scratchOwner
        configuration.connectTimeout = connectTimeout
        configuration.stallTimeout = stallTimeout
        // A profile that was named says where its credentials are; and only AWS has its own machines' service, which
        // is not waited for where none are needed.
        let machine = MetadataCredentials(
            environment: environment,
            transport: transport,
            allowsInstance: endpoint == nil && !anonymous
        )
        let credentials = SharedCredentials(
            profile: profile,
            environment: environment,
            machine: profile == nil ? machine : nil,
            allowsNone: anonymous
        )
        return try S3Store(configuration: configuration, credentials: credentials, transport: transport)
    }
}
