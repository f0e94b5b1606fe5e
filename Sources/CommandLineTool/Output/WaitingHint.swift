// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration
internal import Control

/// What would change that an upload waits, in one line for each reason.
///
/// A hint names only what helps for sure: what is set for the file itself goes before what a person sets for all, and
/// what is discretionary waits whatever is allowed.
struct WaitingHint {
    private static let always = "moorage uploads now PATH sends it all the same"

    /// By reason, where nothing else is to be known.
    private static let texts = [
        "offline": "goes on by itself when the remote answers; moorage doctor looks at the network",
        "captive-portal": "log in to this network with a browser, or use another one; it goes on by itself then",
        "backoff": "is tried again by itself; moorage uploads now PATH tries it at once",
        "quiet": "goes on when it was not changed for a while; moorage uploads now PATH sends it at once",
        "paused": "moorage uploads resume what is paused",
        "sleep": "goes on when the machine is awake",
        "disk-full": "make room on the disk of the state folder",
        "auth": "mend the credentials, then run any moorage command with them",
        "conflict": "moorage uploads resolve PATH --keep mine|theirs|both",
        "open":
            "goes on when the programs that have the old file open close it; moorage uploads now PATH gives them 30 s",
        "dependency": "goes on when what it names is done",
    ]

    /// A gate that settings open, unless the upload is discretionary.
    private struct Gate {
        /// What helps whatever is set, with the upload's class and its own settings.
        var sure: String
        /// What has to be set besides.
        var settings: [(name: OptionName, value: String)]
        /// What the upload goes by where it is not discretionary any more.
        var standard: String
    }

    private static let gates = [
        "expensive": Gate(
            sure: "use another network, or moorage policy set metered=no",
            settings: [(.allowExpensive, "true")],
            standard: "allow_expensive counts"
        ),
        "constrained": Gate(
            sure: "moorage policy set low-data=off",
            settings: [(.allowConstrained, "true")],
            standard: "allow_constrained counts"
        ),
        "cellular": Gate(
            sure: "use another network",
            settings: [(.allowCellular, "true")],
            standard: "allow_cellular counts"
        ),
        "battery": Gate(
            sure: "plug it in",
            settings: [(.requirePower, "false"), (.batteryMinimum, "0")],
            standard: "require_power and battery_min count"
        ),
        "power-saver": Gate(
            sure: "choose another power profile",
            settings: [(.allowPowerSaver, "true")],
            standard: "allow_power_saver counts"
        ),
        // No setting has others than discretionary uploads wait for these.
        "load": Gate(
            sure: "goes on when the machine is less busy",
            settings: [],
            standard: "this does not count"
        ),
        "thermal": Gate(
            sure: "goes on when the machine has cooled down",
            settings: [],
            standard: "this does not count"
        ),
    ]

    private let upload: UploadReport
    private var details: UploadDetails? { upload.details }

    init(_ upload: UploadReport) {
        self.upload = upload
    }

    /// The uploads with a hint for each reason.
    static func adding(to uploads: [UploadReport]) -> [UploadReport] {
        uploads.map { upload in
            let hints = WaitingHint(upload)
            var upload = upload
            for index in upload.waiting.indices { upload.waiting[index].hint = hints.text(upload.waiting[index]) }
            return upload
        }
    }

    /// What helps against a reason; nil: it is not known.
    func text(_ waiting: UploadReport.Waiting) -> String? {
        switch waiting.reason {
        case "window":
            return parts(["goes on when its window opens", takingBack(.window), Self.always])
        case "not-before": return parts(["goes on at that time", takingBack(.notBefore), Self.always])
        case "quota":
            let network = "goes on over a network that is not metered"
            let what = waiting.until == nil ? network : "\(network), or when the budget begins anew"
            let others = "moorage policy set expensive_daily=SIZE expensive_monthly=SIZE sets others"
            let detail = waiting.detail ?? ""
            // What is set for the file itself stands whatever is set for all.
            if let own = OptionName.budgets.first(where: { detail.contains(" for files with \($0.rawValue)=") }) {
                return parts([what, takingBack(own), Self.always])
            }
            // Of what does not fit it is not told into which budget.
            let isOfOthers = detail.hasPrefix("of the ") || !OptionName.budgets.contains(where: isOwn)
            return parts([what, isOfOthers ? others : nil, Self.always])
        case let reason:
            guard let gate = Self.gates[reason] else { return Self.texts[reason] }
            guard let details else { return parts([gate.sure, Self.always]) }
            // Any upload waits a moment while programs write many files, of which no more is told.
            let isBriefly = reason == "load" && waiting.detail == nil
            guard details.transferClass == "discretionary", !isBriefly else {
                return parts([opening(gate, waiting), Self.always])
            }
            return parts(["it is discretionary and waits whatever is allowed: \(gate.sure)", ending(gate), Self.always])
        }
    }

    /// What opens a gate for what is not discretionary.
    private func opening(_ gate: Gate, _ waiting: UploadReport.Waiting) -> String {
        var settings = gate.settings
        // What is told to be charged too little needs no power, or it would wait for that.
        if waiting.detail?.contains(" below ") ?? false { settings.removeAll { $0.name == .requirePower } }
        let own = settings.filter { isOwn($0.name) }
        let others = settings.filter { !isOwn($0.name) }.map { "\($0.name.rawValue)=\($0.value)" }
        var steps = others.isEmpty ? [] : ["moorage policy set \(others.joined(separator: " "))"]
        if isThere { steps += own.map { "\(attribute($0.name, $0.value)) as it is set for the file itself" } }
        // Where one of several cannot be set all of them together open nothing.
        guard !steps.isEmpty, isThere || own.isEmpty else { return gate.sure }
        return "\(gate.sure), or \(steps.joined(separator: " and "))"
    }

    /// What makes an upload one that is not discretionary, for whichever reason it is.
    private func ending(_ gate: Gate) -> String? {
        guard isThere else { return nil }
        return "\(attribute(.discretionary, "no")) makes it background, for which \(gate.standard)"
    }

    /// What takes back a setting of the file itself, before which nothing else goes.
    private func takingBack(_ name: OptionName) -> String? {
        guard isOwn(name), isThere else { return nil }
        return "setfattr -x user.moorage.\(name.hyphenated) PATH takes back what is set for the file itself"
    }

    private func attribute(_ name: OptionName, _ value: String) -> String {
        "setfattr -n user.moorage.\(name.hyphenated) -v \(value) PATH"
    }

    private func isOwn(_ name: OptionName) -> Bool { details?.settings?[name.rawValue] != nil }

    /// What is deleted has no attributes any more.
    private var isThere: Bool { upload.kind != .delete }

    private func parts(_ parts: [String?]) -> String { parts.compactMap { $0 }.joined(separator: "; ") }
}
