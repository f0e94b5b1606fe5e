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

    @Test func aPathMeansWhatIsMountedThereNow() throws {
        func resolver(_ volumes: [VolumeDescription], mounted: Set<String>) -> SelectionResolver {
            SelectionResolver(
                volumes: volumes,
                mounted: mounted,
                configuration: ConfigurationFile(),
                workingDirectory: "/"
            )
        }
        var same = part
        same.mountpoint = whole.mountpoint
        for volumes in [[whole, same], [same, whole]] {
            for volume in volumes {
                let found = try resolver(volumes, mounted: [volume.id]).resolve("/nowhere/m/a")
                #expect(found == UploadSelection(volumes: [volume.id], paths: ["a"]))
            }
            let last = try resolver(volumes, mounted: []).resolve("/nowhere/m/a")
            #expect(last == UploadSelection(volumes: [volumes[0].id], paths: ["a"]))
        }
        // What was mounted deeper once is no longer there.
        let found = try resolver([part, whole], mounted: [whole.id]).resolve("/nowhere/m/inner/x")
        #expect(found == UploadSelection(volumes: [whole.id], paths: ["inner/x"]))
    }

    @Test func eachPathIsMeantOnlyInItsOwnVolume() throws {
        let found = try resolver.uploads(named: ["/nowhere/m/a", "0f3a9b12-17", "/nowhere/m/inner/b", "/nowhere/m/c"])
        let expected = [
            UploadSelection(volumes: [whole.id], paths: ["a", "c"]), UploadSelection(volumes: [part.id], paths: ["b"]),
        ].sorted { $0.volumes[0] < $1.volumes[0] }
        #expect(found == expected + [UploadSelection(ids: ["0f3a9b12-17"])])
        #expect(try resolver.uploads(named: []) == [UploadSelection()])
        #expect(try resolver.uploads(named: ["pics"]) == [UploadSelection(volumes: [part.id])])
        #expect(throws: CommandFailure.self) { _ = try resolver.uploads(named: ["pics", "/nowhere/m/a"]) }
        #expect(throws: CommandFailure.self) { _ = try resolver.uploads(named: ["/elsewhere/a"]) }
    }

    @Test func everythingUnderAWordMayBeInSeveralVolumes() throws {
        let all = [UploadSelection(volumes: [whole.id]), UploadSelection(volumes: [part.id])]
        let inPart = [
            UploadSelection(volumes: [whole.id], paths: ["p/q/r"]), UploadSelection(volumes: [part.id], paths: ["r"]),
        ]
        #expect(try resolver.everything(under: "s3://b-1") == all)
        #expect(
            try resolver.everything(under: "s3://b-1/p") == [
                UploadSelection(volumes: [whole.id], paths: ["p"]), all[1],
            ]
        )
        #expect(try resolver.everything(under: "s3://b-1/p/q/r") == inPart)
        #expect(
            try resolver.everything(under: "pics") == [UploadSelection(volumes: [whole.id], paths: ["p/q"]), all[1]]
        )
        #expect(try resolver.everything(under: "s3://unknown-bucket").isEmpty)
        let mounted = SelectionResolver(
            volumes: [whole, part],
            mounted: [whole.id, part.id],
            configuration: ConfigurationFile(),
            workingDirectory: "/"
        )
        #expect(try mounted.everything(under: "/nowhere/m") == all)
        #expect(try mounted.everything(under: "/nowhere") == all)
        #expect(
            try mounted.everything(under: "/nowhere/m/inner/x") == [UploadSelection(volumes: [part.id], paths: ["x"])]
        )
        #expect(try mounted.everything(under: "/elsewhere").isEmpty)
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
            for target in [folder, "../" + folder.dropFirst("/tmp/".count)] {
                #expect(symlink(target, folder + "/file") == 0)
                #expect(AbsolutePath.resolvedFolder(folder + "/file/") == folder)
                _ = unlink(folder + "/file")
            }
            #expect(symlink("file", folder + "/file") == 0)
            #expect(AbsolutePath.resolvedFolder(folder + "/file") == folder + "/file")
        }
    }
}
