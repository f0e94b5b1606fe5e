// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A dictionary of large values by row.
///
/// A dictionary keeps its values in a table of which up to five in eight places are empty; of 50,000 rows these took as
/// much memory as all else. Here only numbers are in such a table, the values are side by side.
struct RowTable<Value: Sendable>: Sendable {
    private var indices: [RowID: Int32] = [:]
    private var slots: [(key: RowID, value: Value)?] = []
    private var free: [Int32] = []

    var count: Int { indices.count }
    var keys: Dictionary<RowID, Int32>.Keys { indices.keys }
    var values: some Sequence<Value> { slots.lazy.compactMap { $0?.value } }

    subscript(key: RowID) -> Value? {
        get { indices[key].flatMap { slots[Int($0)]?.value } }
        _modify {
            let known = indices[key]
            var value: Value?
            if let known { value = slots[Int(known)]?.value }
            if let known { slots[Int(known)] = nil }
            defer { put(value, key, known) }
            yield &value
        }
    }

    @discardableResult
    mutating func removeValue(forKey key: RowID) -> Value? {
        guard let index = indices.removeValue(forKey: key) else { return nil }
        let value = slots[Int(index)]?.value
        vacate(index)
        return value
    }

    private mutating func vacate(_ index: Int32) {
        slots[Int(index)] = nil
        free.append(index)
        // A queue that was long gives its memory back.
        guard free.count > 64, free.count > 3 * indices.count else { return }
        let kept = slots.compactMap(\.self)
        self = RowTable()
        for (key, value) in kept { put(value, key, nil) }
    }

    private mutating func put(_ value: Value?, _ key: RowID, _ known: Int32?) {
        switch (value, known) {
        case (let value?, let index?): slots[Int(index)] = (key, value)
        case (let value?, nil):
            if let index = free.popLast() {
                slots[Int(index)] = (key, value)
                indices[key] = index
            } else {
                indices[key] = Int32(slots.count)
                slots.append((key, value))
            }
        case (nil, let index?):
            indices[key] = nil
            vacate(index)
        case (nil, nil): break
        }
    }
}

extension RowTable: Sequence {
    func makeIterator() -> some IteratorProtocol<(key: RowID, value: Value)> {
        slots.lazy.compactMap { $0 }.makeIterator()
    }
}
