// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration
internal import Stores

/// What is to be mounted where, with all settings resolved.
struct MountRequest: Sendable {
    /// The remote as the user named it.
    let remote: String
    /// Absolute, its folder's symbolic links resolved.
    let mountpoint: String
    let volume: VolumeDescription
    let values: OptionValues

    /// Resolves the words of the command line against the configuration file and the environment.
    init(
        remote text: String,
        mountpoint: String,
        options: [String],
        instance: Instance,
        environment: [String: String]
    ) throws(ConfigurationError) {
        // The budgets there are of all volumes together, not of each.
        var values = instance.configuration.policy.without(OptionName.budgets)
        var given = OptionValues()
        for option in options { given = given.overridden(by: try OptionValues(mountOptions: option)) }
        var name: String?
        var remote = try RemoteName(text)
        if case .section(let section) = remote {
            guard let found = instance.configuration.volume(named: section) else {
                throw ConfigurationError(
                    text,
                    "no such section in \(instance.directories.configuration); use s3://BUCKET[/PREFIX], http(s)://HOST/PATH/ or add [volume \(text)]"
                )
            }
            name = section
            remote = found.remote
            values = values.overridden(by: found.values)
        }
        values = values.overridden(by: given)
        var volume: VolumeDescription
        switch remote {
        case .s3(let bucket, let prefix):
            volume = try VolumeDescription(
                bucket: bucket,
                prefix: prefix,
                name: name,
                values: values,
                environment: MountRequest.completed(environment, profile: values.text(.profile))
            )
        case .http(let url):
            volume = try VolumeDescription(url: url, name: name, values: values)
            values.set(.readOnly, .flag(true))
        case .section: throw ConfigurationError(text, "not a remote")
        }
        self.remote = text
        self.mountpoint = mountpoint
        self.values = values
        volume.mountpoint = mountpoint
        let paths = instance.configuration.paths(ofVolume: name)
        volume.paths = paths.isEmpty ? nil : paths
        self.volume = volume
    }

    /// The environment with the endpoint and region of the AWS files' profile where it names none itself.
    private static func completed(_ environment: [String: String], profile: String?) -> [String: String] {
        guard let found = try? AWSProfile.load(profile, environment: environment) else { return environment }
        var result = environment
        let names = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]
        if let endpoint = found.endpoint, names.allSatisfy({ (result[$0] ?? "").isEmpty }) {
            result["AWS_ENDPOINT_URL"] = endpoint
        }
        if let region = found.region, ["AWS_REGION", "AWS_DEFAULT_REGION"].allSatisfy({ (result[$0] ?? "").isEmpty }) {
            result["AWS_REGION"] = region
        }
        return result
    }
}
