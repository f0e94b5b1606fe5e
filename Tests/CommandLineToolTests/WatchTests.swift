// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Control
import Testing

@testable import CommandLineTool

@Suite struct WatchScreenTests {
    private static let now = Timestamp(seconds: 1_700_000_000)

    private static func transfer(_ path: String, _ sent: Int64, restarts: Int = 0) -> TransferReport {
        TransferReport(
            id: "12345678-1",
            path: path,
            size: 100 << 20,
            sent: sent << 20,
            restarts: restarts,
            bytesPerSecond: 2 << 20,
            secondsLeft: Double(100 - sent) / 2,
            uploadProtocol: "s3-multipart"
        )
    }

    private static let report: StatusReport = {
        let waiting = UploadReport.Waiting(
            reason: "expensive",
            since: now.advanced(bySeconds: -90).rfc3339,
            until: nil,
            detail: "NetworkManager says metered"
        )
        let quiet = UploadReport.Waiting(
            reason: "quiet",
            since: now.advanced(bySeconds: -3).rfc3339,
            until: now.advanced(bySeconds: 20).rfc3339
        )
        let activity = ActivityReport(
            bytesPerSecond: 4 << 20,
            secondsLeft: 45,
            bytesLeft: 180 << 20,
            ready: 7,
            waiting: [.init(files: 12, waiting: waiting), .init(files: 1, waiting: quiet)],
            oldestWait: .init(since: now.advanced(bySeconds: -7200).rfc3339, seconds: 7200),
            transfers: [transfer("photos/写真.jpg", 25), transfer(String(repeating: "long/", count: 30) + "e", 50)],
            next: []
        )
        var volume = VolumeReport(
            id: "1",
            remote: "s3://bucket",
            mountpoint: "/mnt",
            pending: .init(files: 22, bytes: 300 << 20),
            uploading: .init(files: 2, bytesDone: 75 << 20, bytesTotal: 200 << 20),
            conflicts: 1,
            attention: 2,
            connection: "online",
            cache: .init(bytes: 0, limit: 1)
        )
        volume.activity = activity
        return StatusReport(flusher: .init(running: true, pid: 7), conditions: [:], volumes: [volume])
    }()

    private func text(_ width: Int, height: Int = 100, now: Timestamp? = Self.now) -> [String] {
        WatchScreen(report: Self.report, now: now).lines(width: width, height: height)
            .map { $0.rendered(width: width, hasColours: false) }
    }

    @Test func aPersonSeesWhatRunsWhatWaitsWhyUntilWhenHowFastAndHowMuchIsLeft() {
        let all = text(100).joined(separator: "\n")
        for words in [
            "flusher running, pid 7 · 4 MiB/s", "s3://bucket  on /mnt", "22 files pending · 180 MiB left",
            "4 MiB/s · done in 45 s · oldest waits for 2 h 0 min", " 25%  25 MiB of 100 MiB  2 MiB/s  38 s left",
            "[#####...............]", "7 files, their turn comes", "12 files  expensive for 2 min: NetworkManager",
            "1 file  quiet for 3 s, 20 s more", "2 need attention", "1 conflict",
        ] {
            #expect(all.contains(words), "\(words) in\n\(all)")
        }
    }

    @Test(arguments: [1, 5, 20, 40, 59, 60, 80, 200])
    func nothingIsWiderOrHigherThanTheTerminal(width: Int) {
        for height in [1, 2, 5, 100] {
            let lines = text(width, height: height)
            #expect(lines.count <= height)
            #expect(lines.allSatisfy { DisplayWidth.of($0) <= width })
        }
        if width >= 40 { #expect(text(width, height: 5).last?.contains("lines more") == true) }
    }

    @Test func barsStandBelowEachOther() {
        let bars = text(100).filter { $0.contains("[#") }
        #expect(bars.count == 2)
        let places = bars.map { line in DisplayWidth.of(String(line.prefix { $0 != "[" })) }
        #expect(Set(places).count == 1, "\(bars)")
    }

    @Test func aTextThatIsReadLaterTellsTimesAndChangesOnlyWithWhatItTells() {
        let lines = text(120, now: nil).joined(separator: "\n")
        #expect(lines.contains("expensive since 2023-11-14T22:11:50.000Z: Net"))
        #expect(lines.contains("until 2023-11-14T22:13:40.000Z"))
    }

    @Test func aNameCannotDriveTheTerminalAndColoursCanBeLeftOut() {
        var line = StyledText("a\u{1B}[2Jb", .red)
        line.add("c")
        #expect(line.rendered(width: 80, hasColours: false) == "a [2Jbc")
        #expect(line.rendered(width: 80, hasColours: true) == "\u{1B}[31ma [2Jb\u{1B}[0mc")
        #expect(line.rendered(width: 3, hasColours: false) == "a …")
    }

    @Test(arguments: [("abc", 3), ("写真", 4), ("e\u{301}", 1), ("🎉", 2), ("", 0)])
    func widthsAreThoseOfTerminals(text: String, width: Int) {
        #expect(DisplayWidth.of(text) == width)
        #expect(DisplayWidth.of(DisplayWidth.fit(text, to: 3)) == 3)
        #expect(DisplayWidth.of(DisplayWidth.cutFront(text + "0123456789", to: 6)) == 6)
    }
}
