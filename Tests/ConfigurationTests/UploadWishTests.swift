// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Configuration
import Testing

@Suite struct UploadWishTests {
    private let now = Timestamp(seconds: 1_000_000)

    private func wish(_ key: String, _ text: String) -> UploadWish? {
        UploadWish.name(key).flatMap { UploadWish($0, text, now: now) }
    }

    @Test func wishesAreReadAsTheSettingsOfPathsAre() {
        #expect(wish("not-before", "+2h") == .notBefore(now.advanced(bySeconds: 7200)))
        #expect(wish("not_before", "") == .notBefore(nil))
        #expect(wish("deadline", "1970-01-12T13:46:40Z") == .deadline(now))
        #expect(wish("priority", "-100") == .priority(-100))
        #expect(wish("priority", "") == .priority(0))
        #expect(wish("window", "22:00-06:00") == .setting(.window, "22:00-06:00"))
        #expect(wish("allow-expensive", "yes") == .setting(.allowExpensive, "yes"))
        #expect(wish("stall_timeout", "") == .setting(.stallTimeout, nil))
        for (key, text) in [
            ("priority", "101"), ("deadline", "2h"), ("window", "sometimes"), ("battery-min", "101"),
            ("require-power", "?"),
            ("rate-limit", "10"), ("expensive-daily", "0"), ("lifetime", "0s"),
            ("window", String(repeating: "Mon 00:00-00:01,", count: 40)),
            ("window", "22:00-06:00\n"),
        ] {
            #expect(wish(key, text) == nil, "\(key) \(text)")
        }
    }

    @Test func whatIsNotOfOneFileIsNoWish() {
        for key in ["endpoint", "max_rate", "low_data_networks", "discretionary_above", "metered", "state", "pin", ""] {
            #expect(UploadWish.name(key) == nil, "\(key)")
        }
        #expect(UploadWish.names.count == OptionName.pathSettings.count - 1)
    }

    @Test func settingsOfAFileHaveOneSpelling() {
        var settings: String?
        var (notBefore, deadline, priority): (Timestamp?, Timestamp?, Int64) = (nil, nil, 0)
        for line in ["window=22:00-06:00", "allow-expensive = 1", "priority=7", "not-before=+1s", "retry_cap=1h"] {
            UploadWish(line: line, now: now)?.apply(
                notBefore: &notBefore,
                deadline: &deadline,
                priority: &priority,
                settings: &settings
            )
        }
        #expect(settings == "allow_expensive=1\nretry_cap=1h\nwindow=22:00-06:00")
        #expect(priority == 7 && notBefore == now.advanced(bySeconds: 1) && deadline == nil)
        #expect(FileSettings(settings).values.flag(.allowExpensive))
        UploadWish(line: "window=", now: now)?.apply(
            notBefore: &notBefore,
            deadline: &deadline,
            priority: &priority,
            settings: &settings
        )
        #expect(settings == "allow_expensive=1\nretry_cap=1h")
        #expect(FileSettings(nil).text == nil && FileSettings("").text == nil && FileSettings("x=1\n=\n\n").text == nil)
    }
}
