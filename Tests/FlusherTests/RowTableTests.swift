// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import TestSupport
import Testing

@testable import Flusher

@Suite struct RowTableTests {
    @Test(arguments: 1...5 as ClosedRange<UInt64>)
    func itHoldsWhatADictionaryHolds(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var (table, model) = (RowTable<[Int]>(), [RowID: [Int]]())
        for step in 0..<20_000 {
            // Now and then all of it goes.
            let isShrinking = step % 4000 > 2500
            let id = RowID(
                volume: "v\(Int.random(in: 0..<2, using: &random))",
                node: .random(in: 0..<300, using: &random)
            )
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<(isShrinking ? 1 : 4):
                table[id] = [step]
                model[id] = [step]
            case 4..<6:
                table[id]?.append(step)
                model[id]?.append(step)
            case 6: #expect(table[id] == model[id])
            case 7:
                table[id] = nil
                model[id] = nil
            case 8: #expect(table.removeValue(forKey: id) == model.removeValue(forKey: id))
            default:
                let copy = table
                table[id]?[0] = -1
                model[id]?[0] = -1
                #expect(copy.count == table.count)
            }
            guard step % 500 == 0 || model.isEmpty else { continue }
            #expect(table.count == model.count && Set(table.keys) == Set(model.keys), "seed \(seed)")
            #expect(Dictionary(uniqueKeysWithValues: table.map { ($0.key, $0.value) }) == model, "seed \(seed)")
            #expect(table.values.map { $0.count }.sorted() == model.values.map { $0.count }.sorted())
        }
    }
}
