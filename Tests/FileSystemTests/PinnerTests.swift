// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import FileSystem
import Platform
import Testing

@Suite struct PinnerTests {
    /// The bytes of a pin come when they come: the end of the mount is not one of the things that wait for them.
    @Test(arguments: [100_000, 3 << 20])
    func theEndOfAMountGivesUpWhatPinsFetch(size: Int) throws {
        let volume = try Volume(metadataAge: 60)
        volume.store.set("f", [UInt8](repeating: 7, count: size))
        volume.store.state.update { $0.holdsFetches = true }
        try volume.files.setExtendedAttribute(volume.number("f"), ObjectKey("user.moorage.pin"), Array("1".utf8))
        try volume.files.start()
        let isHeld = volume.store.state.wait(timeout: 30) { $0.held > 0 ? true : nil }
        try #require(isHeld == true)
        volume.files.shutDown()
        let (held, cancelled) = volume.store.state.inspect { ($0.held, $0.cancelled) }
        #expect(held == 1 && cancelled == 1)
    }
}
