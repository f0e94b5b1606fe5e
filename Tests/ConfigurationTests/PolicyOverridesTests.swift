// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Configuration
import Foundation
import Glibc
import Platform
import Testing

@Suite struct PolicyOverridesTests {
    private let now = Timestamp(seconds: 1_800_000_000)

    private func overrides(_ items: (key: String, value: String, seconds: Double?)...) throws -> PolicyOverrides {
        var overrides = PolicyOverrides()
        for item in items { try overrides.set(item.key, to: item.value, for: item.seconds, now: now) }
        return overrides
    }

    @Test func theLastWordCountsAndAutoTakesItBack() throws {
        var overrides = try overrides(("metered", "yes", nil), ("metered", "no", 60), ("low-data", "on", nil))
        #expect(overrides.entries.map(\.key) == ["low-data", "metered"])
        #expect(overrides["metered"]?.value == "no" && overrides["metered"]?.until == now.seconds + 60)
        try overrides.set("metered", to: "auto", for: nil, now: now)
        #expect(overrides["metered"] == nil)
        try overrides.unset(["low-data"])
        #expect(overrides.entries.isEmpty)
    }

    @Test(arguments: [
        ("metered", "maybe"), ("low-data", "yes"), ("battery_min", "101"), ("battery_min", ""), ("quiet_period", "1s"),
        ("discretionary", "auto"), ("", "yes"),
    ])
    func wrongKeysAndValuesAreRefused(_ key: String, _ value: String) throws {
        var overrides = PolicyOverrides()
        #expect(throws: ConfigurationError.self) { try overrides.set(key, to: value, for: nil, now: now) }
        #expect(overrides.entries.isEmpty)
    }

    @Test func itEndsWhenItsTimeIsOver() throws {
        var overrides = try overrides(("metered", "yes", 60), ("low-data", "on", nil))
        #expect(overrides.nextEnd == now.advanced(bySeconds: 60))
        let early = overrides.expire(at: now.advanced(bySeconds: 59))
        #expect(!early)
        let late = overrides.expire(at: now.advanced(bySeconds: 60))
        #expect(late && overrides.entries.map(\.key) == ["low-data"])
    }

    @Test func aClockThatIsSetBackDoesNotMakeItLast() throws {
        var overrides = try overrides(("metered", "yes", 60))
        let same = overrides.expire(at: now)
        #expect(!same)
        let isOver = overrides.expire(at: now.advanced(bySeconds: -3600))
        #expect(isOver && overrides.entries.isEmpty)
    }

    @Test func theyReadBackAndNobodyElseReadsThem() throws {
        let folder = "/tmp/moorage-overrides-\(Randomness.hexadecimal(bytes: 6))"
        try Files.makeDirectories(folder)
        let path = folder + "/policy.json"
        defer {
            try? Files.removeIfPresent(path)
            try? Files.removeDirectory(folder)
        }
        #expect(try PolicyOverrides(loading: path).entries.isEmpty, "no file is nothing set")
        let overrides = try overrides(("metered", "yes", 60), ("battery_min", "35", nil))
        try overrides.save(to: path)
        #expect(try PolicyOverrides(loading: path) == overrides)
        #expect(try FileStatus.of(path).map { $0.mode & 0o777 } == 0o600)
        try Files.writeAtomically(path, Array("{".utf8))
        #expect(throws: ConfigurationError.self) { _ = try PolicyOverrides(loading: path) }
    }

    @Test func settingsAreOverriddenOneByOne() throws {
        var values = OptionValues()
        values.set(.requirePower, .flag(true))
        values.set(.batteryMinimum, .number(40))
        let conditions = UploadConditions(values)
        #expect(conditions.requirePower && conditions.batteryMinimum == 40 && !conditions.allowExpensive)
        #expect(conditions.allowCellular, "the table's default")
        let overrides = try overrides(("battery_min", "5", nil), ("require_power", "off", nil), ("metered", "yes", nil))
        let changed = conditions.overridden(by: overrides.values)
        #expect(changed.batteryMinimum == 5 && !changed.requirePower && changed.allowCellular)
        #expect(conditions.overridden(by: OptionValues()) == conditions)
    }

    @Test func conditionsSurviveBeingWrittenDown() throws {
        var values = OptionValues()
        values.set(.window, .text("22:00-06:00"))
        values.set(.priority, .number(-3))
        values.set(.lifetime, .seconds(86_400))
        values.set(.requirePower, .flag(true))
        let conditions = UploadConditions(values)
        let text = String(decoding: try JSONEncoder().encode(conditions), as: UTF8.self)
        let decoded = try JSONDecoder().decode(UploadConditions.self, from: Data(text.utf8))
        #expect(decoded.window == "22:00-06:00" && decoded.priority == -3 && decoded.lifetime == 86_400)
        #expect(decoded.requirePower && decoded.batteryMinimum == 20 && decoded.deadline == nil)
        #expect(text.contains(#""allow_expensive":false"#) && text.contains(#""deadline":null"#))
    }

    @Test func conditionsOfAnEarlierVersionAreRead() throws {
        let text = #"{"allow_expensive":true,"battery_min":40,"of_the_future":{}}"#
        let decoded = try JSONDecoder().decode(UploadConditions.self, from: Data(text.utf8))
        #expect(decoded.allowExpensive && decoded.batteryMinimum == 40 && decoded.retryCap == 300)
    }

    @Test(arguments: [
        ("http://127.0.0.1:9000", true), ("http://localhost", true), ("https://[::1]:9000", true),
        ("https://s3.example.net", false), ("http://127.example.net:1", false), ("http://192.0.2.1", false),
        ("http://localhost.example.net", false),
    ])
    func aRemoteIsKnownToBeOnThisMachine(_ endpoint: String, _ isLocal: Bool) throws {
        var values = OptionValues()
        values.set(.endpoint, .text(endpoint))
        let volume = try VolumeDescription(bucket: "b", prefix: "", values: values, environment: [:])
        #expect(volume.isOnThisMachine == isLocal)
    }

    @Test func amazonIsNotOnThisMachine() throws {
        let volume = try VolumeDescription(bucket: "b", prefix: "", values: OptionValues(), environment: [:])
        #expect(!volume.isOnThisMachine && volume.conditions == UploadConditions())
    }

    @Test func volumesAreToldApartByTheirServers() throws {
        func server(_ bucket: String, _ endpoint: String? = nil, isPathStyle: Bool? = nil) throws -> String {
            var values = OptionValues()
            if let endpoint { values.set(.endpoint, .text(endpoint)) }
            if let isPathStyle { values.set(.pathStyle, .flag(isPathStyle)) }
            return try VolumeDescription(bucket: bucket, prefix: "p", values: values, environment: [:]).server
        }
        let near = "http://127.0.0.1:9000"
        #expect(try server("a", near) == server("b", near))
        #expect(try server("a", near) != server("a", "http://127.0.0.1:9001"))
        #expect(try server("a", near, isPathStyle: false) != server("b", near, isPathStyle: false))
        #expect(try server("a") != server("b") && server("a") == server("a"))
        let folders = try ["http://h:1/a/b/", "http://h:1/", "http://h:2/a/b/"].map { url in
            try VolumeDescription(url: url, values: OptionValues()).server
        }
        #expect(folders == ["http://h:1 10.0", "http://h:1 10.0", "http://h:2 10.0"])
    }
}
