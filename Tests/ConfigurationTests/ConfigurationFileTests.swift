// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Testing

@testable import Configuration

@Suite struct ConfigurationFileTests {
    private func message(_ text: String) -> String? {
        do throws(ConfigurationError) {
            _ = try ConfigurationFile(text: text, path: "/c")
            return nil
        } catch {
            return error.description
        }
    }

    @Test func sectionsAndValuesAreRead() throws {
        let file = try ConfigurationFile(
            text: """
                # comment
                [policy]
                quiet_period = 500ms
                parallel_files = 8

                [volume photos]
                remote = s3://bucket/a/b/
                endpoint = http://localhost:9000/
                path_style = yes
                cache_size = 2G
                """,
            path: "/c"
        )
        #expect(file.policy.seconds(.quietPeriod) == 0.5)
        #expect(file.policy.number(.parallelFiles) == 8)
        let volume = try #require(file.volume(named: "photos"))
        #expect(volume.remote == .s3(bucket: "bucket", prefix: "a/b"))
        #expect(volume.values.flag(.pathStyle))
        #expect(volume.values.number(.cacheSize) == 2 << 30)
        #expect(volume.values[.quietPeriod] == nil)
    }

    @Test(arguments: [
        ("[policy]\nquiet_perod = 1s", "/c:2: unknown key quiet_perod (did you mean quiet_period?) in [policy]"),
        ("[policy]\nendpoint = http://x", "/c:2: endpoint does not belong in [policy]"),
        ("[policy]\n\nquiet_period = soon", "/c:3: quiet_period=soon is not a time from 0s to 1d"),
        ("quiet_period = 1", "/c:1: a key before the first [section]"),
        ("[policy]\n[policy]", "/c:2: [policy] stands already on line 1"),
        ("[policy]\nquiet_period=1\nquiet_period=2", "/c:3: quiet_period stands already on line 2"),
        ("[volume a]\nregion = x", "/c:1: [volume a] has no remote = s3://BUCKET or http://HOST/PATH/"),
        (
            "[volume a]\nremote = ftp://x",
            "/c:2: ftp://x: this kind of remote is not supported; use s3://BUCKET[/PREFIX] or http(s)://HOST/PATH/"
        ),
        ("[volumes]", "/c:1: unknown section [volumes]: [policy], [volume NAME] or [path NAME:GLOB] is meant"),
        ("[policy", "/c:1: section without closing ]"),
        ("[policy]\nwhat", "/c:2: neither key = value nor [section]"),
        ("[policy]\r\nquiet_period = 1\r\nwhat\r\n", "/c:3: neither key = value nor [section]"),
    ])
    func mistakesNameFileAndLine(text: String, expected: String) {
        #expect(message(text) == expected)
    }

    @Test func everyOptionHasADefaultThatParsesAndStandsInOneGroup() throws {
        let grouped = OptionDocumentation.groups.flatMap(\.names)
        #expect(Set(grouped) == Set(OptionName.allCases))
        #expect(grouped.count == OptionName.allCases.count)
        for name in OptionName.allCases {
            let definition = name.definition
            #expect(definition.name == name)
            if let standard = definition.standard {
                _ = try OptionValue(parsing: standard, for: definition, at: "default")
            }
        }
    }
}

@Suite struct MountOptionTests {
    @Test func keysAndFlagsAreReadAndForeignWordsSkipped() throws {
        let values = try OptionValues(
            mountOptions: "rw,nofail,x-systemd.automount,_netdev,ro,endpoint=http://h:1,umask=077,region=a\\,b"
        )
        #expect(values.flag(.readOnly))
        #expect(values.number(.umask) == 0o77)
        #expect(values.text(.endpoint) == "http://h:1")
        #expect(values.text(.region) == "a,b")
    }

    @Test func wordsOfEveryMountArePassedOverButThoseThatForbid() throws {
        let words = "rw,dirsync,iversion,mand,nosymfollow,suid,noatime"
        #expect(try OptionValues(mountOptions: words) == OptionValues())
        #expect(try OptionValues(mountOptions: "rw,noexec").flag(.noExecution))
        #expect(try !OptionValues(mountOptions: "user,noexec,exec").flag(.noExecution))
    }

    @Test(arguments: [
        "unknown", "endpoint", "umask=888", "umask=1777", "block_size=3M", "part_size=1M", "parallel_files=3",
        "cache_dir=relative", "upload_protocol=ftp", "uid=-1", "cache_size=99999999999T",
    ])
    func wrongOptionsAreRefused(text: String) {
        #expect(throws: ConfigurationError.self) { _ = try OptionValues(mountOptions: text) }
    }

    @Test func strongerLayersWin() throws {
        let weak = try OptionValues(mountOptions: "quiet_period=9,region=eu")
        let strong = try OptionValues(mountOptions: "quiet_period=1m")
        let both = weak.overridden(by: strong)
        #expect(both.seconds(.quietPeriod) == 60)
        #expect(both.text(.region) == "eu")
        #expect(both.number(.cacheSize) == 10 << 30)
    }

    @Test func sizesAndTimesReadBackFromTheirText() {
        for bytes in [0, 1, 1023, 1024, 5 << 20, 3 << 30, 1 << 40] as [Int64] {
            #expect(OptionValue.parseBytes(byteText(bytes)) == bytes)
        }
        for seconds in [0, 0.25, 1, 2.5, 59, 60, 3600, 86_400, 90_000] {
            #expect(OptionValue.parseSeconds(secondText(seconds)) == seconds)
        }
    }

    @Test func pathsHaveRulesOfTheirOwn() throws {
        let text = """
            [volume photos]
            remote = s3://photos
            [path photos:*.raw]
            discretionary = true
            window = 22:00-06:00, Sat-Sun 00:00-24:00
            [path *:/private/**]
            priority = -5
            [path other:[a-c]*]
            deadline = +2h
            """
        let file = try ConfigurationFile(text: text, path: "config")
        #expect(file.paths(ofVolume: "photos").map(\.pattern) == ["*.raw", "/private/**"])
        #expect(file.paths(ofVolume: nil).map(\.pattern) == ["/private/**"])
        #expect(file.paths(ofVolume: "other").map(\.pattern) == ["/private/**", "[a-c]*"])
        let conditions = UploadConditions().overridden(by: file.paths(ofVolume: "photos")[0].values)
        #expect(conditions.discretionary && conditions.window == "22:00-06:00, Sat-Sun 00:00-24:00")
    }

    @Test(arguments: [
        "[path photos]\nwindow = 22:00-06:00", "[path photos:]", "[path a b:*.raw]", "[path photos:[a]\npriority = 1",
        "[path photos:*.raw]\nregion = eu", "[path photos:*.raw]\nquiet_period = 2s",
        "[path photos:*.raw]\nwindow = soon",
        "[path photos:*.raw]\npriority = 101", "[path photos:*.raw]\nexpensive_daily = 10",
    ])
    func wrongRulesForPathsAreRefused(_ text: String) {
        #expect(throws: ConfigurationError.self) { try ConfigurationFile(text: text, path: "config") }
    }
}
