// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Control
import Testing

@testable import CommandLineTool

@Suite struct WaitingHintTests {
    private static let gates = ["expensive", "constrained", "cellular", "battery", "power-saver"]

    private func hint(
        _ reason: String,
        detail: String? = "more",
        until: String? = "U",
        class name: String? = "background",
        settings: [String: String] = [:],
        kind: UploadReport.Kind = .put
    ) -> String {
        var upload = UploadReport(
            id: "1",
            volume: "v",
            path: "a",
            kind: kind,
            size: 1,
            sent: 0,
            state: .waiting,
            waiting: [.init(reason: reason, since: "S", until: until, detail: detail)],
            uploadProtocol: nil,
            attempts: 0,
            nextAttempt: nil,
            resumable: false,
            error: nil
        )
        upload.details = name.map { name in
            UploadDetails(
                transferClass: name,
                rank: 0,
                acknowledged: 0,
                holds: .init(user: 0, policy: 1),
                restarts: 0,
                bytesPerSecond: 0,
                secondsLeft: nil,
                settings: settings
            )
        }
        return WaitingHint.adding(to: [upload])[0].waiting[0].hint ?? ""
    }

    @Test func everyReasonHasAHint() {
        let reasons = [
            "offline", "captive-portal", "load", "thermal", "window", "not-before", "backoff", "quiet", "paused",
            "sleep", "quota", "disk-full", "auth", "conflict", "open", "dependency",
        ]
        for reason in reasons + Self.gates {
            for name in ["interactive", "background", "discretionary", nil] {
                #expect(!hint(reason, class: name).isEmpty, "\(reason)")
            }
        }
        #expect(hint("of a later version").isEmpty)
    }

    @Test(arguments: ["offline", "captive-portal"])
    func askingForItMakesNoWay(_ reason: String) { #expect(!hint(reason).contains("uploads now")) }

    @Test(arguments: [
        ("expensive", "policy set allow_expensive=true"), ("constrained", "policy set allow_constrained=true"),
        ("cellular", "policy set allow_cellular=true"), ("battery", "policy set require_power=false battery_min=0"),
        ("power-saver", "policy set allow_power_saver=true"),
    ])
    func whatASettingHoldsItLetsGo(_ reason: String, _ step: String) {
        let text = hint(reason)
        #expect(text.contains(step) && text.contains("uploads now") && !text.contains("setfattr"), "\(text)")
        // Of many at once it is not known what they go by.
        #expect(!hint(reason, class: nil).contains(step))
    }

    @Test func aChargeThatIsTooLowAsksForNoPower() {
        let text = hint("battery", detail: "on battery at 10 %, below 20 %, says UPower")
        #expect(text.contains("policy set battery_min=0;"), "\(text)")
    }

    @Test(arguments: gates + ["thermal", "load"])
    func whatIsDiscretionaryWaitsWhateverIsAllowed(_ reason: String) {
        let text = hint(reason, class: "discretionary")
        #expect(text.hasPrefix("it is discretionary"), "\(text)")
        #expect(text.contains("setfattr -n user.moorage.discretionary -v no PATH") && text.contains("uploads now"))
        for key in ["allow_expensive=", "allow_constrained=", "allow_cellular=", "allow_power_saver=", "battery_min="] {
            #expect(!text.contains(key), "\(text)")
        }
        #expect(!hint(reason, class: "discretionary", kind: .delete).contains("setfattr"))
    }

    @Test func theLoadOfManyFilesHoldsAllClassesAlike() {
        #expect(!hint("load", detail: nil, class: "discretionary").contains("discretionary"))
    }

    @Test(arguments: [
        ("expensive", ["allow_expensive": "no"], "setfattr -n user.moorage.allow-expensive -v true PATH"),
        ("power-saver", ["allow_power_saver": "no"], "setfattr -n user.moorage.allow-power-saver -v true PATH"),
        ("window", ["window": "22:00-06:00"], "setfattr -x user.moorage.window PATH"),
        ("not-before", ["not_before": "2030-01-01T00:00:00Z"], "setfattr -x user.moorage.not-before PATH"),
    ])
    func whatIsSetForTheFileItselfIsChangedThere(_ reason: String, _ settings: [String: String], _ step: String) {
        let text = hint(reason, settings: settings)
        #expect(text.contains(step) && text.contains("set for the file itself"), "\(text)")
        for (key, _) in settings { #expect(!text.contains("policy set \(key)"), "\(text)") }
        let deleted = hint(reason, settings: settings, kind: .delete)
        #expect(!deleted.contains("setfattr") && !deleted.contains("policy set \(settings.keys.first ?? "")"))
        #expect(!hint(reason, settings: ["priority": "1"]).contains("setfattr"))
    }

    @Test func powerIsAskedForByTheFileAndByOthers() {
        let text = hint("battery", settings: ["require_power": "1"])
        let file = "setfattr -n user.moorage.require-power -v false PATH"
        #expect(text.contains("moorage policy set battery_min=0 and \(file)"), "\(text)")
        let own = hint("battery", detail: "at 10 %, below 20 %", settings: ["require_power": "1", "battery_min": "20"])
        #expect(own.contains("setfattr -n user.moorage.battery-min -v 0 PATH") && !own.contains("policy set"), "\(own)")
    }

    /// The pattern's own letters say nothing of whose budget it is.
    @Test(arguments: ["of the day, 9 bytes", "of the day, 9 bytes for *.fits", "its 9 bytes do not fit into it"])
    func budgetsOfOthersAreSetByAnybody(detail: String) {
        #expect(hint("quota", detail: detail).contains("moorage policy set expensive_daily=SIZE"))
        #expect(!hint("quota", detail: detail).contains("setfattr"))
    }

    @Test func aBudgetOfFilesIsTakenBackFromThem() {
        let settings = ["expensive_daily": "9", "expensive_monthly": "12"]
        let text = hint(
            "quota",
            detail: "of the month, 12 bytes for files with expensive_monthly=12",
            settings: settings
        )
        #expect(text.contains("setfattr -x user.moorage.expensive-monthly PATH"), "\(text)")
        #expect(!text.contains("expensive-daily") && !text.contains("policy set"), "\(text)")
        // It may be of others, or its own.
        let unknown = hint("quota", detail: "its 9 bytes do not fit into it", settings: settings)
        #expect(!unknown.contains("setfattr") && !unknown.contains("policy set"), "\(unknown)")
    }

    @Test func whatFitsIntoNoBudgetWaitsForAnotherNetwork() {
        #expect(hint("quota").contains("begins anew") && !hint("quota", until: nil).contains("begins anew"))
    }
}
