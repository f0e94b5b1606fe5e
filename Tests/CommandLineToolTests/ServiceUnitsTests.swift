// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Testing

@testable import CommandLineTool

@Suite struct ServiceUnitsTests {
    private func units(
        _ scope: ServiceUnits.Scope,
        executable: String = "/usr/bin/moorage",
        writable: [String] = ["/home/u/.local/state/moorage"],
        environment: [String: String] = [:],
        hasNamespaces: Bool = true
    ) -> ServiceUnits {
        ServiceUnits(
            scope: scope,
            executable: executable,
            socket: "/run/user/1000/moorage/control.sock",
            writable: writable,
            environment: environment,
            hasNamespaces: hasNamespaces
        )
    }

    private func lines(_ units: ServiceUnits) -> [String] {
        units.files[0].text.split(separator: "\n").map(String.init)
    }

    @Test func whatIsSpecialInAUnitFileIsEscaped() {
        let lines = lines(
            units(
                .user,
                executable: "/opt/my apps/moorage",
                writable: ["/srv/100%", "/srv/a \"b\""],
                environment: ["MOORAGE_STATE_DIR": "/srv/100%"]
            )
        )
        #expect(lines.contains("ExecStart=\"/opt/my apps/moorage\" flusher --exit-when-idle 5m"))
        #expect(lines.contains("ReadWritePaths=\"/srv/100%%\" \"/srv/a \\\"b\\\"\""))
        #expect(lines.contains("Environment=\"MOORAGE_STATE_DIR=/srv/100%%\""))
    }

    @Test func aUserWithoutNamespacesHasAServiceThatStarts() {
        let plain = lines(units(.user, hasNamespaces: false))
        #expect(!plain.contains { $0.hasPrefix("Protect") || $0.hasPrefix("Private") })
        #expect(plain.contains("NoNewPrivileges=yes"))
        // A user's manager makes no other name space without one of users.
        #expect(lines(units(.user)).contains("PrivateUsers=yes"))
        #expect(!lines(units(.system)).contains("PrivateUsers=yes"))
    }

    @Test func aFolderInTmpIsNotHidden() {
        #expect(lines(units(.user, writable: ["/tmp/m/state"])).contains("PrivateTmp=no"))
        #expect(lines(units(.user)).contains("PrivateTmp=yes"))
    }

    @Test func theGroupsTellWhoEndsTheFlusherAtLogout() {
        func home(_ line: String) -> Lingering.Home { Lingering.home(ofGroups: line, user: 1000) }
        let slice = "0::/user.slice/user-1000.slice/"
        #expect(home(slice + "user@1000.service/app.slice/moorage-flusher.service\n") == .userManager)
        #expect(home(slice + "session-3.scope\n") == .session)
        #expect(home("0::/user.slice/user-1001.slice/session-3.scope\n") == .elsewhere)
        #expect(home("0::/system.slice/moorage-flusher.service\n") == .elsewhere)
        #expect(home("12:cpu:/\n1:name=systemd:/user.slice/user-1000.slice/session-c1.scope\n") == .session)
        #expect(home("") == .elsewhere)
    }
}
