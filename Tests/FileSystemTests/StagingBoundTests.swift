// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Platform
import Testing

@testable import FileSystem

@Suite struct StagingBoundTests {
    private static let limit: Int64 = 100 << 20

    @Test func noShareGoesBeyondTheLimitAndPausesGrow() {
        var lastPause = 0.0
        for used in stride(from: Int64(0), through: Self.limit + (2 << 20), by: 100_000) {
            for count in [Int64(1), 4096, 1 << 20, 30 << 20] {
                let share = StagingShare.of(count, used: used, limit: Self.limit)
                #expect((share == nil) == (used + count > Self.limit), "\(used) \(count)")
                guard let share else { continue }
                #expect(share.bytes >= count && used + share.bytes <= Self.limit, "\(used) \(count)")
                #expect((share.pause > 0) == (used > Self.limit / 4 * 3), "\(used)")
                #expect(share.pause <= WriterPause.longest)
                if count == 1 {
                    #expect(share.pause >= lastPause)
                    lastPause = share.pause
                }
            }
        }
        #expect(lastPause > 0.19)
    }

    private func bound(_ volume: Volume, patience: Double, room: @escaping @Sendable () -> Void = {}) -> StagingBound {
        StagingBound(limit: 16 << 20, patience: patience, directory: volume.folder + "/state/staging", makeRoom: room)
    }

    @Test func aWriterGetsRoomWhenSomeIsMadeAndAnErrorWhenNoneIs() throws {
        let volume = try Volume()
        let path = volume.folder + "/state/staging/full"
        let file = try FileDescriptor.open(path, O_RDWR | O_CREAT)
        try file.allocate(ByteRange(0, 16 << 20), keepingSize: false)
        #expect(Files.occupiedBytes(in: volume.folder + "/state/staging") >= 16 << 20)
        let calls = Monitor(0)
        let never = bound(volume, patience: 0.25) { calls.update { $0 += 1 } }
        let error = #expect(throws: FileError.self) { try never.claim(1) }
        guard case .system(let cause)? = error, cause.code == ENOSPC else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(calls.inspect { $0 } > 1)
        try bound(volume, patience: 60) { unlink(path) }.claim(1)
    }

    @Test func whatHasNoNameYetCountsUntilItHasOneOrIsGone() throws {
        let bound = bound(try Volume(), patience: 0)
        do {
            let copy = bound.countUnnamed()
            copy.add(10 << 20)
            #expect(throws: FileError.self) { try bound.claim(7 << 20) }
            try bound.claim(5 << 20)
        }
        try bound.claim(7 << 20)
    }
}
