// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Glibc
import Platform
import Testing

@Suite struct MappedFilesTests {
    private static let text = """
        00400000-00452000 r-xp 00000000 08:02 173521                             /usr/bin/some program
        7f1000000000-7f1000008000 rw-s 00000000 fe:01 42                         /state/volumes/a b/journal.sqlite-shm
        7f1000008000-7f1000009000 rw-p 00000000 00:00 0 
        7f1000009000-7f100000a000 rw-s 00000000 fe:01 7                          /state/bandwidth (deleted)
        ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]

        """

    private func look(_ address: UInt, _ text: String = text) -> (look: MappedFiles.Look, name: String) {
        let bytes = Array(text.utf8)
        let look = bytes.withUnsafeBytes { MappedFiles.look(for: address, in: $0) }
        return (look, String(decoding: bytes[look.nameStart..<look.nameEnd], as: UTF8.self))
    }

    @Test(arguments: [
        (UInt(0x7f10_0000_0000), "/state/volumes/a b/journal.sqlite-shm"),
        (0x7f10_0000_7fff, "/state/volumes/a b/journal.sqlite-shm"),
        (0x7f10_0000_8000, ""),
        (0x7f10_0000_9abc, "/state/bandwidth (deleted)"),
        (0xffff_ffff_ff60_0000, "[vsyscall]"),
        (0x0040_0000, "/usr/bin/some program"),
    ])
    func anAddressIsInTheFileThatIsMappedThere(address: UInt, name: String) {
        let found = look(address)
        #expect(found.look.isFound)
        #expect(found.name == name)
    }

    @Test(arguments: [0, 0x003f_ffff, 0x0045_2000, 0x7f10_0000_a000, UInt.max])
    func oneThatIsInNoneIsNotFound(address: UInt) {
        let found = look(address).look
        #expect(!found.isFound)
        #expect(found.done == Self.text.utf8.count)
    }

    @Test func aLineThatIsCutIsLeftForTheNextLook() {
        for length in 0..<Self.text.utf8.count {
            let text = String(Self.text.prefix(length))
            let found = look(0x7f10_0000_9000, text)
            #expect(!found.look.isFound || found.name == "/state/bandwidth (deleted)")
            #expect(found.look.done == 0 || Array(text.utf8)[found.look.done - 1] == 0x0A)
        }
        #expect(look(0x7f10_0000_9000, "garbage\n\n-\n7f10\n7f10-\n").look.done == 22)
    }

    @Test func theKernelsOwnTextIsRead() throws {
        let text = String(decoding: try Files.read("/proc/self/maps", limit: 4 << 20), as: UTF8.self)
        let place = withUnsafeTemporaryAllocation(of: Int.self, capacity: 1) { UInt(bitPattern: $0.baseAddress) }
        #expect(look(place, text).look.isFound)
    }
}
