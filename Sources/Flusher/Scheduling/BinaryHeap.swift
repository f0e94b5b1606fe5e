// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A priority queue: the least element first, O(log n) in and out.
struct BinaryHeap<Element: Comparable & Sendable>: Sendable {
    private var elements: [Element] = []

    var first: Element? { elements.first }
    var count: Int { elements.count }

    mutating func insert(_ element: Element) {
        elements.append(element)
        var index = elements.count - 1
        while index > 0 {
            let parent = (index - 1) / 2
            guard elements[index] < elements[parent] else { return }
            elements.swapAt(index, parent)
            index = parent
        }
    }

    /// Lets go of all elements but those that meet a condition.
    mutating func keep(where isWanted: (Element) -> Bool) {
        let kept = elements.filter(isWanted)
        elements = []
        for element in kept { insert(element) }
    }

    mutating func popFirst() -> Element? {
        guard let least = elements.first else { return nil }
        let last = elements.removeLast()
        guard !elements.isEmpty else { return least }
        elements[0] = last
        var index = 0
        while true {
            var smallest = index
            for child in [2 * index + 1, 2 * index + 2]
            where child < elements.count && elements[child] < elements[smallest] {
                smallest = child
            }
            guard smallest != index else { return least }
            elements.swapAt(index, smallest)
            index = smallest
        }
    }
}
