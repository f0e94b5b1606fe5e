// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Control

/// What would change that an upload waits, in one line for each reason.
enum WaitingHint {
    private static let always = "moorage uploads now PATH sends it all the same"

    /// By reason, as `waiting` has them.
    static let texts = [
        "offline": "goes on by itself when the remote answers; moorage doctor looks at the network",
        "captive-portal": "log in to this network with a browser; \(always)",
        "expensive": "use another network, moorage policy set metered=no or allow_expensive=true; \(always)",
        "constrained": "moorage policy set low-data=off or allow_constrained=true; \(always)",
        "cellular": "use another network, or moorage policy set allow_cellular=true; \(always)",
        "battery": "plug it in, or moorage policy set battery_min=0; \(always)",
        "power-saver": "choose another power profile, or moorage policy set allow_power_saver=true; \(always)",
        "load": "goes on when the machine is less busy; \(always)",
        "thermal": "goes on when the machine has cooled down; \(always)",
        "window": "goes on when its window opens; \(always)",
        "not-before": "goes on at that time; \(always)",
        "backoff": "is tried again by itself; moorage uploads now PATH tries it at once",
        "quiet": "goes on when it was not changed for a while; moorage uploads now PATH sends it at once",
        "paused": "moorage uploads resume what is paused",
        "sleep": "goes on when the machine is awake",
        "quota": "goes on when the budget begins anew; \(always)",
        "disk-full": "make room on the disk of the state folder",
        "auth": "mend the credentials, then run any moorage command with them",
        "conflict": "moorage uploads resolve PATH --keep mine|theirs|both",
        "dependency": "goes on when what it names is done",
    ]

    /// The uploads with a hint for each reason.
    static func adding(to uploads: [UploadReport]) -> [UploadReport] {
        uploads.map { upload in
            var upload = upload
            for index in upload.waiting.indices {
                upload.waiting[index].hint = texts[upload.waiting[index].reason]
            }
            return upload
        }
    }
}
