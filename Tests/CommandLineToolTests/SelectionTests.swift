// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Configuration
import Control
import Glibc
import Platform
import Testing

@testable import CommandLineTool

@Suite struct SelectionResolverTests {
    private let resolver: SelectionResolver
    private let whole: VolumeDescription
    private let part: VolumeDescription

    init() throws {
        func volume(_ prefix: String, _ mountpoint: String) throws -> VolumeDescription {
            var volume = try VolumeDescription(bucket: "b-1", prefix: prefix, values: OptionValues(), environment: [:])
            volume.mountpoint = mountpoint
            return volume
        }
        whole = try volume("", "/nowhere/m")
        part = try volume("p/q", "/nowhere/m/inner")
        resolver = SelectionResolver(
            volumes: [whole, part],
            configuration: try ConfigurationFile(text: "[volume pics]\nremote = s3://b-1/p/q", path: "/c"),
            workingDirectory: "/nowhere/m/dir"
        )
    }

    @Test func pathsMeanTheDeepestMount() throws {
        #expect(try resolver.resolve("/nowhere/m/a/b") == UploadSelection(volumes: [whole.id], paths: ["a/b"]))
        #expect(try resolver.resolve("/nowhere/m/inner/x") == UploadSelection(volumes: [part.id], paths: ["x"]))
        #expect(try resolver.resolve("/nowhere/m") == UploadSelection(volumes: [whole.id]))
        #expect(try resolver.resolve("file") == UploadSelection(volumes: [whole.id], paths: ["dir/file"]))
        #expect(try resolver.resolve("../x/./y//z") == UploadSelection(volumes: [whole.id], paths: ["x/y/z"]))
        #expect(try resolver.resolve("/nowhere/mm") == nil)
    }

    @Test func remotesAndNamesMeanVolumes() throws {
        #expect(try resolver.resolve("s3://b-1") == UploadSelection(volumes: [whole.id]))
        #expect(try resolver.resolve("s3://b-1/p/q") == UploadSelection(volumes: [part.id]))
        #expect(try resolver.resolve("s3://b-1/p/q/r") == UploadSelection(volumes: [part.id], paths: ["r"]))
        #expect(try resolver.resolve("s3://b-1/other") == UploadSelection(volumes: [whole.id], paths: ["other"]))
        #expect(try resolver.resolve("s3://unknown-bucket") == nil)
        #expect(try resolver.resolve("pics") == UploadSelection(volumes: [part.id]))
        #expect(try resolver.resolve(whole.id) == UploadSelection(volumes: [whole.id]))
    }
}

@Suite struct MountpointTests {
    private func withFolder(_ body: (String) throws -> Void) throws {
        let folder = "/tmp/moorage-test-\(Randomness.hexadecimal(bytes: 8))"
        try Files.makeDirectories(folder)
        defer {
            _ = unlink(folder + "/file")
            _ = rmdir(folder)
        }
        try body(folder)
    }

    @Test func onlyAnEmptyFolderIsMountedOn() throws {
        try withFolder { folder in
            try Mountpoint.check(folder)
            try Files.writeAtomically(folder + "/file", [1])
            for path in [folder, folder + "/file", folder + "/missing", "/proc"] {
                #expect(throws: CommandFailure.self) { try Mountpoint.check(path) }
            }
        }
    }

    @Test func mountpointsAreNamedByTheirRealFolder() throws {
        try withFolder { folder in
            #expect(AbsolutePath.resolvedFolder(folder + "/") == folder)
            #expect(AbsolutePath.resolvedFolder(folder + "/x/..//y") == folder + "/y")
            #expect(AbsolutePath.resolvedFolder("/") == "/")
        }
    }
}
