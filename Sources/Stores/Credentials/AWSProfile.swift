// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
internal import Platform
package import S3Wire

/// What the AWS shared files say under one profile name.
package struct AWSProfile: Sendable {
    package var credentials: SigningCredentials?
    package var region: String?
    package var endpoint: String?

    /// Reads `~/.aws/credentials` and `~/.aws/config`, or the files that the environment names instead.
    ///
    /// `name` nil takes `AWS_PROFILE`, then `default`. Missing files are no error; the first file
    /// that has a key wins, credentials before config.
    package static func load(_ name: String?, environment: [String: String]) throws(SystemError) -> AWSProfile {
        let profile = name ?? environment["AWS_PROFILE"] ?? environment["AWS_DEFAULT_PROFILE"] ?? "default"
        // Services of the system have no HOME; nobody but root may look into root's.
        let home = environment["HOME"] ?? (geteuid() == 0 ? "/root" : nil)
        let credentials = try section(
            environment["AWS_SHARED_CREDENTIALS_FILE"] ?? home.map { "\($0)/.aws/credentials" },
            [profile]
        )
        let config = try section(
            environment["AWS_CONFIG_FILE"] ?? home.map { "\($0)/.aws/config" },
            ["profile \(profile)", profile]
        )
        let merged = config.merging(credentials) { _, new in new }
        var result = AWSProfile()
        result.region = merged["region"]
        result.endpoint = merged["endpoint_url"]
        // Key and secret come from the same file: half of each would be a pair that exists nowhere.
        for source in [credentials, config] where result.credentials == nil {
            if let id = source["aws_access_key_id"], let secret = source["aws_secret_access_key"] {
                result.credentials = SigningCredentials(
                    accessKeyID: id,
                    secretAccessKey: secret,
                    sessionToken: source["aws_session_token"]
                )
            }
        }
        return result
    }

    private static func section(_ path: String?, _ names: [String]) throws(SystemError) -> [String: String] {
        guard let path, try FileStatus.of(path) != nil else { return [:] }
        let file = INIFile(String(decoding: try Files.read(path), as: UTF8.self))
        for name in names {
            if let section = file.sections[name] { return section }
        }
        return [:]
    }
}
