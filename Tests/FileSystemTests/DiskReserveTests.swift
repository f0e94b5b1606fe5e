// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Platform
import Testing

@testable import FileSystem

@Suite struct DiskReserveTests {
    /// fallocate(2) claims its whole range at once.
    @Test func aClaimIsGrantedWheneverItLeavesTheReserve() {
        let counts: [Int64] = [1, 1 << 20, 16 << 20, 17 << 20, 100 << 20]
        for free in stride(from: Int64(0), through: 200 << 20, by: 1 << 20) {
            for count in counts {
                let share = DiskReserve.share(of: free, atLeast: count)
                #expect((share >= count) == (free - count >= DiskReserve.reserve), "\(free) \(count)")
                #expect(share == 0 || share <= free - DiskReserve.reserve, "\(free) \(count)")
            }
        }
    }

    @Test func theScarcerRoomIsTheLongerWritersRest() {
        var last = 0.0
        for free in stride(from: 200 << 20, through: Int64(0), by: -(1 << 20)) {
            let scarcity = DiskReserve.scarcity(of: free)
            #expect((scarcity > 0) == (free - DiskReserve.reserve < DiskReserve.scarcity), "\(free)")
            #expect(scarcity >= last && scarcity <= 1)
            if scarcity > 0 { #expect(DiskReserve.share(of: free, atLeast: 1) <= 1 << 20) }
            last = scarcity
        }
        #expect(last == 1)
    }

    /// How a claim of more than any disk has ends, and how often it was asked whether there is hope.
    private func claim(patience: Double, hopes: Int) throws -> (code: Int32?, asked: Int) {
        let volume = try Volume()
        let asked = Monitor(0)
        let relief = DiskReserve.Relief(
            patience: patience,
            isExpected: { count in
                #expect(count == 1 << 60)
                return asked.update { asked in
                    asked += 1
                    return asked <= hopes
                }
            }
        )
        let error = #expect(throws: FileError.self) {
            try DiskReserve(directory: volume.folder, relief: relief).claim(1 << 60)
        }
        guard case .system(let cause)? = error else { return (nil, asked.inspect { $0 }) }
        return (cause.code, asked.inspect { $0 })
    }

    @Test func aWriterWaitsWhileUploadsWillMakeRoom() throws {
        #expect(try claim(patience: 60, hopes: 3) == (ENOSPC, 4))
        let patient = try claim(patience: 0.35, hopes: .max)
        #expect(patient.code == ENOSPC && patient.asked > 1)
        #expect(try claim(patience: 60, hopes: 0) == (ENOSPC, 1), "what nothing can help is told at once")
    }

    /// Each file of a copy would take the whole time otherwise.
    @Test func whereOneHasWaitedInVainOthersDoNot() throws {
        let volume = try Volume()
        let asked = Monitor(0)
        let relief = DiskReserve.Relief(patience: 0.3, isExpected: { _ in note(asked) })
        let reserve = DiskReserve(directory: volume.folder, relief: relief)
        #expect(throws: FileError.self) { try reserve.claim(1 << 60) }
        let count = asked.inspect { $0 }
        #expect(count > 0)
        #expect(throws: FileError.self) { try reserve.claim(1 << 60) }
        #expect(asked.inspect { $0 } == count, "the second waited")
        // There is room for less, and so hope again.
        try reserve.claim(100 << 20)
        #expect(throws: FileError.self) { try reserve.claim(1 << 60) }
        #expect(asked.inspect { $0 } > count)
    }

    @Test func theJournalIsNotAskedForEveryMebibyte() throws {
        let volume = try Volume()
        let (asked, time, cost) = (Monitor(0), Monitor(100.0), Monitor(0.0))
        let relief = DiskReserve.Relief(
            patience: 60,
            isExpected: { _ in
                time.update { $0 += cost.inspect { $0 } }
                return asked.update { asked in
                    asked += 1
                    return asked == 1
                }
            }
        )
        let reserve = DiskReserve(directory: volume.folder, relief: relief, clock: { time.inspect { $0 } })
        for _ in 0..<1000 { #expect(reserve.areUploadsExpected()) }
        #expect(asked.inspect { $0 } == 1)
        time.update { $0 += 1 }
        cost.update { $0 = 2 }
        for _ in 0..<1000 { #expect(!reserve.areUploadsExpected()) }
        // The look took two seconds: it is not repeated for forty.
        time.update { $0 += 39 }
        #expect(!reserve.areUploadsExpected() && asked.inspect { $0 } == 2)
        time.update { $0 += 2 }
        #expect(!reserve.areUploadsExpected() && asked.inspect { $0 } == 3)
    }

    @Test func whatIsOnlyCachedGivesWayFirst() throws {
        let volume = try Volume()
        let asked = Monitor<[String]>([])
        let relief = DiskReserve.Relief(
            patience: 60,
            giveWay: { count in
                asked.update { $0.append("cache \(count >> 60)") }
                return true
            },
            reclaim: {
                asked.update { $0.append("staging") }
                return false
            },
            isExpected: { _ in
                asked.update { $0.append("uploads") }
                return false
            }
        )
        let reserve = DiskReserve(directory: volume.folder, relief: relief)
        #expect(throws: FileError.self) { try reserve.claim(1 << 60) }
        #expect(asked.inspect { $0 } == ["cache 1", "staging", "uploads"])
        reserve.makeRoom()
        #expect(asked.inspect { $0.suffix(2) } == ["cache 0", "staging"])
    }

    @Test func bytesOfMappingsDoNotWait() throws {
        let volume = try Volume()
        let asked = Monitor(0)
        let relief = DiskReserve.Relief(patience: 60, isExpected: { _ in note(asked) })
        #expect(throws: FileError.self) {
            try DiskReserve(directory: volume.folder, relief: relief).claim(1 << 60, mayWait: false)
        }
        #expect(asked.inspect { $0 } == 0)
    }
}

/// Notes that there is hope, as often as it was asked for.
private func note(_ asked: Monitor<Int>) -> Bool {
    asked.update { $0 += 1 }
    return true
}
