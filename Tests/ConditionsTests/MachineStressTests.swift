// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Conditions
import Foundation
import Platform
import Policy
import Testing

@Suite struct MachineStressTests {
    @Test func whatTheKernelWritesIsRead() {
        let text = "some avg10=30.25 avg60=1.00 avg300=0.00 total=5\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=0\n"
        #expect(MachineStress.average(in: text) == 30.25)
        #expect(
            MachineStress.average(in: "full avg10=1.00\n") == nil && MachineStress.average(in: "some avg10=x") == nil
        )
    }

    @Test func whatIsBusyIsSoUntilItIsWellBelow() {
        var stress = MachineStress()
        let seen = [30, 31, 21, 20, 21, 20, 20, 30, 31, 20].map { (cpu: Double) in
            stress.observe(MachineStress.Stalls(cpu: cpu, io: 0))
            return stress.pressure
        }
        #expect(seen == [.no, .yes, .yes, .yes, .yes, .yes, .no, .no, .yes, .yes])
        stress.observe(MachineStress.Stalls())
        #expect(stress.pressure == .unknown)
        stress.observe(MachineStress.Stalls(cpu: 20))
        #expect(stress.pressure == .no, "what nothing was known of has nothing to settle")
    }

    @Test(arguments: [
        MachineStress.Stalls(cpu: 31, io: 0, memory: 0), .init(cpu: 0, io: 21, memory: 0), .init(io: 21),
        .init(cpu: 0, io: 0, memory: 21), .init(memory: 21),
    ])
    func whateverIsWaitedForCounts(stalls: MachineStress.Stalls) {
        var stress = MachineStress()
        stress.observe(stalls)
        #expect(stress.pressure == .yes)
    }

    @Test func whatIsHotIsSoUntilItIsWellBelow() {
        var stress = MachineStress()
        let seen = [79_000, 80_000, 75_001, 74_999, 75_000, 74_999, 74_999].map { temperature in
            stress.observe(zones: [(20_000, 90_000), (temperature, 80_000)])
            return stress.heat
        }
        #expect(seen == [.no, .yes, .yes, .yes, .yes, .yes, .no])
        stress.observe(zones: [])
        #expect(stress.heat == .unknown)
    }

    @Test func filesOfTheKernelAreRead() throws {
        let folder = "/tmp/moorage-stress-\(Randomness.hexadecimal(bytes: 6))"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let reader = StressReader(processFolder: folder + "/proc", systemFolder: folder + "/sys")
        var stress = MachineStress()
        reader.read(&stress)
        #expect(stress == MachineStress(), "nothing is told")
        let zone = folder + "/sys/class/thermal/thermal_zone0"
        try Files.makeDirectories(folder + "/proc/pressure")
        try Files.makeDirectories(zone)
        for (name, text) in [
            ("temp", "85000\n"), ("trip_point_0_type", "critical\n"), ("trip_point_0_temp", "100000\n"),
            ("trip_point_1_type", "passive\n"), ("trip_point_1_temp", "84000\n"),
        ] {
            try Files.writeAtomically(zone + "/" + name, Array(text.utf8))
        }
        try Files.writeAtomically(folder + "/proc/pressure/cpu", Array("some avg10=12.00 total=1\n".utf8))
        reader.read(&stress)
        #expect(stress.heat == .yes && stress.pressure == .no)
    }
}
