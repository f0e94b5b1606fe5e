// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Conditions
import Testing

@Suite struct RemoteRouteTests {
    @Test func hostsAreAddressesInNumbers() {
        #expect(RemoteRoute.addresses(of: "192.0.2.7") == ["192.0.2.7"])
        #expect(RemoteRoute.addresses(of: "2001:db8::7") == ["2001:db8::7"])
        #expect(RemoteRoute.addresses(of: "localhost").contains("127.0.0.1"))
        for host in ["", "no such host", "no-such-host.invalid", "300.1.1.1.1"] {
            #expect(RemoteRoute.addresses(of: host).isEmpty)
        }
    }

    @Test func thisMachineItselfIsBehindNoInterface() {
        #expect(RemoteRoute.interfaces(to: ["127.0.0.1"]).isEmpty)
        #expect(RemoteRoute.interfaces(to: ["::1", "no address", ""]).isEmpty)
        #expect(RemoteRoute.interfaces(to: []).isEmpty)
    }
}
