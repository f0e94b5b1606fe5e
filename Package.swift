// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
]

/// A module of the application with exactly the modules it may import.
func module(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: settings)
}

func tool(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(name: name, dependencies: dependencies, swiftSettings: settings)
}

/// Tests of a release build are themselves not optimized: that would take as long as all the rest.
func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    let unoptimized: [SwiftSetting] = [.unsafeFlags(["-Onone"], .when(configuration: .release))]
    let settings = settings + unoptimized
    return .testTarget(name: name + "Tests", dependencies: dependencies + ["TestSupport"], swiftSettings: settings)
}

let package = Package(
    name: "moorage",
    products: [
        .executable(name: "moorage", targets: ["moorage"]),
        .executable(name: "moorage-fault-proxy", targets: ["moorage-fault-proxy"]),
    ],
    targets: [
        // MARK: C libraries
        .systemLibrary(name: "CFuse", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
        .systemLibrary(name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CCrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CExpat", pkgConfig: "expat", providers: [.apt(["libexpat1-dev"])]),
        .systemLibrary(name: "CXXHash", pkgConfig: "libxxhash", providers: [.apt(["libxxhash-dev"])]),
        .target(name: "CShims"),

        // MARK: values and the machine
        module("Base"),
        module("Platform", ["Base", "CShims"]),
        module("Digests", ["Base", "CShims", "CCrypto"]),

        module("Bandwidth", ["Base", "Platform", "CShims"]),

        // MARK: pure protocols
        module("HTTPWire", ["Base"]),
        module("ResumableUpload", ["Base", "HTTPWire"]),
        module("S3Wire", ["Base", "HTTPWire", "Digests", "CExpat"]),

        // MARK: the remote
        module("ObjectStore", ["Base", "HTTPWire"]),
        module("CurlTransport", ["Base", "Platform", "Bandwidth", "HTTPWire", "CCurl", "CShims"]),
        module(
            "Stores",
            [
                "Base", "Platform", "Digests", "HTTPWire", "S3Wire", "ResumableUpload", "ObjectStore", "CurlTransport",
                "CXXHash",
            ]
        ),

        // MARK: local state
        module("Database", ["Base", "Platform", "CSQLite"]),
        module("Catalog", ["Base", "Platform", "Database", "ObjectStore"]),
        module("BlockCache", ["Base", "Platform", "ObjectStore", "CXXHash", "CShims"]),
        module("Journal", ["Base", "Platform", "Database", "CXXHash", "CShims"]),

        // MARK: the flusher
        module("Configuration", ["Base", "Platform", "Bandwidth", "Digests", "Policy"]),
        module("Control", ["Base", "Platform", "Configuration"]),
        module("Policy", ["Base"]),
        module("Conditions", ["Base", "Platform", "Policy", "CShims"]),
        module(
            "Flusher",
            [
                "Base", "Platform", "Digests", "HTTPWire", "ObjectStore", "ResumableUpload", "Catalog", "BlockCache",
                "Bandwidth", "Database", "Journal", "Policy", "Conditions", "Control", "Configuration",
            ]
        ),

        // MARK: the mount
        module(
            "FileSystem",
            [
                "Base", "Platform", "Digests", "CShims", "ObjectStore", "Database", "Catalog", "BlockCache", "Journal",
                "Control", "Configuration",
            ]
        ),
        module("FuseBridge", ["Base", "Platform", "Database", "ObjectStore", "FileSystem", "CFuse", "CShims"]),

        // MARK: the embedded bucket
        module("BucketServer", ["Base", "Platform", "Digests", "HTTPWire", "ResumableUpload", "S3Wire", "CShims"]),

        // MARK: the command
        module(
            "CommandLineTool",
            [
                "Base", "Platform", "Configuration", "Control", "ObjectStore", "Stores", "CurlTransport", "Catalog",
                "BlockCache", "Database", "Journal", "Policy", "Conditions", "Flusher", "FileSystem", "FuseBridge",
                "BucketServer", "Bandwidth",
                "CShims",
            ]
        ),
        tool("moorage", ["CommandLineTool", "Platform"]),

        // MARK: tools for tests
        module("TestSupport", ["Base", "Platform", "CSQLite"]),
        tool("moorage-fault-proxy", ["TestSupport", "Base", "Platform"]),

        // MARK: tests
        tests("Base", ["Base"]),
        tests("Platform", ["Base", "Platform", "CShims"]),
        tests("Bandwidth", ["Base", "Platform", "Bandwidth"]),
        tests("FuseBridge", ["Base", "FileSystem", "FuseBridge"]),
        tests("Database", ["Base", "Platform", "Database"]),
        tests("Journal", ["Base", "Platform", "Database", "Journal"]),
        tests("Catalog", ["Base", "Platform", "Database", "ObjectStore", "Catalog"]),
        tests("Configuration", ["Base", "Platform", "Policy", "Configuration"]),
        tests("CommandLineTool", ["Base", "Platform", "Configuration", "Control", "ObjectStore", "CommandLineTool"]),
        tests("Digests", ["Digests"]),
        tests("HTTPWire", ["Base", "HTTPWire"]),
        tests("BucketServer", ["Base", "Platform", "Digests", "HTTPWire", "BucketServer"]),
        tests(
            "Upload",
            [
                "Base", "Platform", "HTTPWire", "ObjectStore", "Stores", "CurlTransport", "ResumableUpload", "Flusher",
                "BucketServer",
            ]
        ),
        tests("ResumableUpload", ["Base", "HTTPWire", "ResumableUpload"]),
        tests("TestSupport", ["Base", "Platform"]),
        tests("Control", ["Base", "Platform", "Control"]),
        tests("Policy", ["Base", "Policy"]),
        tests("Conditions", ["Base", "Platform", "Policy", "Conditions"]),
        tests(
            "FileSystem",
            [
                "Base", "Platform", "HTTPWire", "ObjectStore", "Catalog", "BlockCache", "Database", "Journal",
                "FileSystem",
            ]
        ),
        tests("BlockCache", ["Base", "Platform", "ObjectStore", "BlockCache"]),
        tests("S3Wire", ["Base", "Digests", "HTTPWire", "S3Wire"]),
        tests("CurlTransport", ["Base", "Platform", "Bandwidth", "HTTPWire", "CurlTransport"]),
        tests(
            "Stores",
            [
                "Base", "Platform", "Digests", "HTTPWire", "S3Wire", "ObjectStore", "CurlTransport", "Stores",
                "BucketServer",
            ]
        ),
        tests(
            "Flusher",
            [
                "Base", "Platform", "Digests", "HTTPWire", "Policy", "Conditions", "Control", "Configuration",
                "ObjectStore", "ResumableUpload", "Database", "Journal", "Catalog", "Flusher",
            ]
        ),
    ]
)
