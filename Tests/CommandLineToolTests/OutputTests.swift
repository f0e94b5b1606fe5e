// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Testing

@testable import CommandLineTool

@Suite struct FormattingTests {
    @Test(
        arguments: [
            (0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (10 << 20, "10 MiB"),
            (1_073_741_823, "1 GiB"),
            (5 << 40, "5 TiB"),
        ] as [(Int64, String)]
    )
    func bytesAreShort(bytes: Int64, text: String) {
        #expect(humanBytes(bytes) == text)
    }

    @Test func progressFitsTheTerminalAndNeverClaimsTheEndEarly() {
        var line = ProgressLine()
        for width in [20, 40, 80, 200] {
            let text = line.render(
                filesDone: 3,
                filesTotal: 10,
                bytesDone: 1 << 30,
                bytesTotal: 1 << 30,
                note: nil,
                time: 1,
                width: width
            )
            #expect(text.count < width)
            if width >= 80 { #expect(text.contains(" 99%") && text.contains("3/10 files")) }
        }
        let done = line.render(
            filesDone: 10,
            filesTotal: 10,
            bytesDone: 9,
            bytesTotal: 9,
            note: nil,
            time: 2,
            width: 80
        )
        #expect(done.contains("100%"))
    }

    @Test func progressKnowsItsRate() {
        var line = ProgressLine()
        var text = ""
        for second in 0...20 {
            text = line.render(
                filesDone: 0,
                filesTotal: 1,
                bytesDone: Int64(second) << 20,
                bytesTotal: 100 << 20,
                note: nil,
                time: Double(second),
                width: 100
            )
        }
        #expect(text.contains("1 MiB/s"))
        #expect(text.contains("80 s left"))
        let offline = line.render(
            filesDone: 0,
            filesTotal: 1,
            bytesDone: 1,
            bytesTotal: 2,
            note: "offline, waiting",
            time: 21,
            width: 100
        )
        #expect(offline.contains("offline, waiting") && !offline.contains("/s"))
    }

    @Test func columnsLineUp() {
        #expect(columns([["a", "bb", "c"], ["aaa", "b", "c"]]) == ["a    bb  c", "aaa  b   c"])
        #expect(columns([]).isEmpty)
    }

    @Test func controlCharactersOfRemoteNamesAreRemoved() {
        #expect(Console.oneLine("a\u{1B}[31m\nb") == "a [31m b")
        // The one-character form of the same beginning.
        #expect(Console.oneLine("a\u{9B}31mb\u{7F}") == "a 31mb ")
    }
}

@Suite struct MountTableTests {
    @Test func escapedPathsAndOptionalFieldsAreRead() {
        let text = """
            36 35 98:0 / / rw,noatime shared:1 master:2 - ext4 /dev/root rw
            40 36 0:50 / /mnt/with\\040space rw,nosuid - fuse.moorage s3://b/p rw,user_id=0
            damaged line
            """
        #expect(
            MountTable.parse(text) == [
                MountEntry(mountpoint: "/", type: "ext4", source: "/dev/root"),
                MountEntry(mountpoint: "/mnt/with space", type: "fuse.moorage", source: "s3://b/p"),
            ]
        )
    }

    @Test func thisProcessHasARoot() {
        #expect(MountTable.current().contains { $0.mountpoint == "/" })
        #expect(!MountTable.isMoorage(at: "/"))
    }
}

@Suite struct MountOutcomeTests {
    @Test func linesOfThePipeAreRead() {
        #expect(MountOutcome(line: "ready\n") == .ready(note: nil))
        #expect(
            MountOutcome(line: "ready mounted without the network\n") == .ready(note: "mounted without the network")
        )
        #expect(MountOutcome(line: "32 mount: no bucket\n") == .failed(CommandFailure("mount: no bucket", status: 32)))
        #expect(MountOutcome(line: "") == nil)
        #expect(MountOutcome(line: "garbage") == nil)
    }
}
