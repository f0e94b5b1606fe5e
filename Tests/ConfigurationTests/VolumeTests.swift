// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Glibc
import Platform
import Testing

@testable import Configuration

@Suite struct RemoteNameTests {
    @Test func bucketsPrefixesAndSectionsAreToldApart() throws {
        #expect(try RemoteName("s3://photos") == .s3(bucket: "photos", prefix: ""))
        #expect(try RemoteName("s3://photos/") == .s3(bucket: "photos", prefix: ""))
        #expect(try RemoteName("s3://photos/a/b//") == .s3(bucket: "photos", prefix: "a/b"))
        #expect(try RemoteName("backup") == .section("backup"))
    }

    @Test(
        arguments: [
            ("http://h", "http://h/"), ("HTTP://Host:80/a", "http://host/a/"), ("https://h:443/a/", "https://h/a/"),
            ("https://h:80/a//", "https://h:80/a/"), ("http://[::1]:8080/", "http://[::1]:8080/"),
            ("http://h/a b/ü%20", "http://h/a%20b/%C3%BC%20/"), ("http://h/@x", "http://h/@x/"),
        ]
    )
    func foldersOfWebServersHaveOneSpelling(text: String, url: String) throws {
        #expect(try RemoteName(text) == .http(url: url))
    }

    @Test(arguments: [
        "s3://", "s3://a", "s3:///x", "s3://bad..name", "s3://b b", "s3://bucket/a//b", "s3://bucket/../x", "ftp://h/",
        "a/b", "", "http://", "http:///x", "http://u:p@h/", "http://h/a//b", "http://h/../x", "http://h/%2E%2e/x",
        "http://h/?q", "http://h/a#b", "http://h h/", "http://h\\x/",
    ])
    func wrongNamesAreRefused(text: String) {
        #expect(throws: ConfigurationError.self) { _ = try RemoteName(text) }
    }
}

@Suite struct WebVolumeTests {
    @Test func aWebServersFolderIsAVolumeOfItsOwn() throws {
        let volume = try VolumeDescription(url: "http://h/a/", values: OptionValues())
        #expect(volume.remote == "http://h/a/")
        #expect(volume.id != (try VolumeDescription(url: "http://h/b/", values: OptionValues())).id)
    }

    @Test func secretsAreRefusedOnTheCommandLine() {
        for option in ["password=x", "username=x", "bearer_token=x"] {
            #expect(throws: ConfigurationError.self) { _ = try OptionValues(mountOptions: option) }
        }
    }

    @Test func certificatesAreForWebServers() throws {
        let values = try OptionValues(mountOptions: "ca_file=/ca,client_cert=/cert,client_key=/key")
        let volume = try VolumeDescription(url: "https://h/", values: values)
        #expect(volume.authorityFile == "/ca" && volume.clientCertificate == "/cert" && volume.clientKey == "/key")
        #expect(throws: ConfigurationError.self) {
            _ = try VolumeDescription(bucket: "bucket", prefix: "", values: values, environment: [:])
        }
        let keyAlone = try OptionValues(mountOptions: "client_key=/key")
        #expect(throws: ConfigurationError.self) { _ = try VolumeDescription(url: "https://h/", values: keyAlone) }
    }

    @Test func aFileWithAPasswordMustBePrivate() throws {
        let path = "/tmp/moorage-test-\(Randomness.hexadecimal(bytes: 8))"
        defer { _ = unlink(path) }
        let text = "[volume files]\nremote = http://h/\nusername = me\npassword = secret\n"
        try Files.writeAtomically(path, Array(text.utf8), mode: 0o600)
        let file = try ConfigurationFile(reading: path)
        #expect(file.volume(named: "files")?.values.text(.password) == "secret")
        chmod(path, 0o640)
        let failure = #expect(throws: ConfigurationError.self) { _ = try ConfigurationFile(reading: path) }
        #expect(failure?.description.contains("secret") == false)
    }
}

@Suite struct DirectoriesTests {
    @Test func environmentOverridesEachFolder() throws {
        let found = try Directories(
            environment: [
                "HOME": "/h", "MOORAGE_CONFIG": "/c", "MOORAGE_STATE_DIR": "/s/", "MOORAGE_CACHE_DIR": "/k",
                "MOORAGE_RUNTIME_DIR": "/r",
            ],
            user: 1000
        )
        #expect(found == Directories(configuration: "/c", state: "/s", cache: "/k", runtime: "/r"))
    }

    @Test func usersAndRootHaveTheirOwnPlaces() throws {
        let user = try Directories(environment: ["HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/7"], user: 7)
        #expect(user.configuration == "/h/.config/moorage/config")
        #expect(user.state == "/h/.local/state/moorage")
        #expect(user.cache == "/h/.cache/moorage")
        #expect(user.runtime == "/run/user/7/moorage")
        let root = try Directories(environment: ["HOME": "/root", "XDG_STATE_HOME": "/x"], user: 0)
        #expect(root.configuration == "/etc/moorage/config")
        #expect(root.state == "/var/lib/moorage")
        #expect(root.runtime == "/run/moorage")
    }

    @Test func anotherStateFolderHasARuntimeFolderOfItsOwn() throws {
        let one = try Directories(environment: ["HOME": "/h", "MOORAGE_STATE_DIR": "/1"], user: 7)
        let two = try Directories(environment: ["HOME": "/h", "MOORAGE_STATE_DIR": "/2"], user: 7)
        #expect(one.runtime != two.runtime)
    }

    @Test func foldersThatOthersMayWriteToAreRefused() throws {
        let path = "/tmp/moorage-test-\(Randomness.hexadecimal(bytes: 8))"
        defer { _ = rmdir(path) }
        try PrivateDirectory.prepare(path)
        #expect(try FileStatus.of(path)?.mode == S_IFDIR | 0o700)
        #expect(chmod(path, 0o770) == 0)
        #expect(throws: ConfigurationError.self) { try PrivateDirectory.prepare(path) }
        #expect(chmod(path, 0o755) == 0)
        try PrivateDirectory.prepare(path)
        #expect(throws: ConfigurationError.self) { try PrivateDirectory.check(path, user: geteuid() + 1) }
    }
}

@Suite struct VolumeDescriptionTests {
    private func volume(_ options: String, _ environment: [String: String] = [:]) throws -> VolumeDescription {
        try VolumeDescription(
            bucket: "b-1",
            prefix: "p",
            values: OptionValues(mountOptions: options),
            environment: environment
        )
    }

    @Test func oneServerInSeveralSpellingsIsOneVolume() throws {
        let plain = try volume("endpoint=http://host")
        #expect(try volume("endpoint=HTTP://Host:80/").id == plain.id)
        #expect(try volume("", ["AWS_ENDPOINT_URL": "http://host/"]).id == plain.id)
        #expect(try volume("endpoint=https://host").id != plain.id)
        #expect(plain.id.count == 16)
        #expect(plain.remote == "s3://b-1/p")
    }

    @Test(arguments: [
        "host:9000", "ftp://host", "http://", "http://host/path", "http://user:secret@host", "http://a b",
    ])
    func wrongEndpointsAreRefusedWithoutTellingSecrets(text: String) {
        do throws(ConfigurationError) {
            _ = try EndpointURL.normalized(text)
            Issue.record("accepted \(text)")
        } catch {
            #expect(!error.description.contains("secret"))
        }
    }

    @Test func descriptionsReadBackAndHoldNoSecret() throws {
        let path = "/tmp/moorage-test-\(Randomness.hexadecimal(bytes: 8)).json"
        defer { _ = unlink(path) }
        let secrets = ["AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_REGION": "eu-1"]
        var written = try volume("cache_size=1G,path_style=false,part_size=8M", secrets)
        written.mountpoint = "/mnt"
        try written.save(to: path)
        #expect(try VolumeDescription(loading: path) == written)
        #expect(try FileStatus.of(path)?.mode == S_IFREG | 0o600)
        let text = String(decoding: try Files.read(path), as: UTF8.self)
        #expect(!text.contains("hush") && !text.contains("AKIAEXAMPLE"))
        #expect(written.region == "eu-1")
        #expect(try VolumeDescription(loading: path + ".missing") == nil)
    }
}
