// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Testing

@testable import Configuration

@Suite struct WatchingOptionsTests {
    @Test(
        arguments: [
            ("/bin/a", ["/bin/a"]), ("/bin/a  b\tc ", ["/bin/a", "b", "c"]),
            ("/bin/a 'two words' \"and more\"", ["/bin/a", "two words", "and more"]),
            ("/bin/a $HOME `x` *;|", ["/bin/a", "$HOME", "`x`", "*;|"]), ("/bin/a '' \"\"", ["/bin/a", "", ""]),
            ("/bin/a\\ b 'c\\d' \"e\\\"f\"", ["/bin/a b", "c\\d", "e\"f"]), ("a'b c'd", ["ab cd"]), ("", []),
        ] as [(String, [String])]
    )
    func wordsAreSplitWithoutAShell(text: String, words: [String]) {
        #expect(ArgumentWords.split(text) == words)
    }

    @Test(arguments: ["/bin/a 'open", "/bin/a \"open", "/bin/a \\"])
    func whatIsNotClosedIsNoList(text: String) {
        #expect(ArgumentWords.split(text) == nil)
    }

    @Test(
        arguments: [
            ("/run/m.sock", ListeningPlace.path("/run/m.sock")),
            ("127.0.0.1:9100", .loopback(isVersion6: false, port: 9100)),
            ("localhost:0", .loopback(isVersion6: false, port: 0)), ("[::1]:1", .loopback(isVersion6: true, port: 1)),
        ]
    )
    func aPlaceIsASocketOrALoopbackAddress(text: String, place: ListeningPlace) {
        #expect(ListeningPlace(text) == place)
    }

    @Test(arguments: [
        "0.0.0.0:9100", "[::]:9100", "192.168.0.1:1", ":9100", "9100", "127.0.0.1", "127.0.0.1:70000", "m.sock",
    ])
    func noOtherAddressIsTaken(text: String) {
        #expect(ListeningPlace(text) == nil)
        do throws(ConfigurationError) {
            _ = try ConfigurationFile(text: "[policy]\nmetrics_listen = \(text)\n", path: "/etc/c")
            Issue.record("\(text) is taken")
        } catch {
            #expect(error.description.contains("/etc/c:2") && error.description.contains("127.0.0.1:PORT"))
        }
    }

    @Test func programsStandInTheConfigurationFileOnly() throws {
        let file = try ConfigurationFile(
            text: "[policy]\non_idle = /bin/echo 'all done'\nhook_timeout = 5s\nnotifications = no\n",
            path: "c"
        )
        let options = WatchingOptions(file.policy)
        #expect(options.onIdle == ["/bin/echo", "all done"] && options.hookTimeout == 5 && !options.notifies)
        #expect(options.onAttention.isEmpty && options.metrics == nil)
        #expect(throws: ConfigurationError.self) { try OptionValues(mountOptions: "on_idle=/bin/echo") }
        #expect(throws: ConfigurationError.self) {
            try ConfigurationFile(text: "[policy]\non_idle = echo\n", path: "c")
        }
    }
}
