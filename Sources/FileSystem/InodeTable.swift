// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// Names an inode to the kernel.
///
/// Never reused while the mount lives; 1 is the root.
package typealias InodeNumber = UInt64

/// Which inodes the kernel knows, and under which name each stands.
///
/// A path is computed from the names, so renaming a folder moves everything in
/// it at once. Lock order: the file system's namespace lock, then an inode's
/// state, then this table; nothing is called with the table locked.
final class InodeTable: Sendable {
    private struct Place: Hashable {
        var parent: InodeNumber
        var name: ObjectKey
    }

    private struct Record {
        let inode: Inode
        /// nil for the root and for what was removed or replaced.
        var place: Place?
        /// The other names of a file with several; the path is made of the first one, `place`.
        var links: Set<Place> = []
        /// How often the kernel was told of it and has not forgotten yet.
        var lookups: UInt64
        /// Records below it, whose paths need it.
        var children = 0
    }

    private struct State {
        var next: InodeNumber = 2
        var records: [InodeNumber: Record] = [:]
        var places: [Place: InodeNumber] = [:]
        /// Inodes that the kernel forgot last, in a ring.
        var forgotten: [InodeNumber] = []
        /// Where the oldest of them is, once the ring is full.
        var oldest = 0
    }

    static let rootNumber: InodeNumber = 1
    /// How many inodes with a name are kept that the kernel forgot, as it does when it needs memory: when it asks
    /// again, they have the same number and times as before.
    static let forgottenLimit = 4096
    private let state: Lock<State>

    init(root: FileAttributes) {
        let inode = Inode(number: Self.rootNumber, kind: .directory, attributes: root)
        state = Lock(State(records: [Self.rootNumber: Record(inode: inode, place: nil, lookups: 1)]))
    }

    subscript(_ number: InodeNumber) -> Inode? {
        state.withLock { $0.records[number]?.inode }
    }

    /// The path of an inode; nil when it, or a folder above it, has been removed.
    func path(of number: InodeNumber) -> ObjectKey? {
        state.withLock { Self.path(of: number, $0) }
    }

    /// The inode under a name.
    func child(_ parent: InodeNumber, _ name: ObjectKey) -> Inode? {
        state.withLock { state in
            state.places[Place(parent: parent, name: name)].flatMap { state.records[$0]?.inode }
        }
    }

    /// The inode at a path, where the kernel knows all names on the way.
    func inode(at path: ObjectKey) -> Inode? {
        state.withLock { state in
            var number = Self.rootNumber
            for part in path.bytes.split(separator: UInt8(ascii: "/")) {
                guard let next = state.places[Place(parent: number, name: ObjectKey(bytes: Array(part)))] else {
                    return nil
                }
                number = next
            }
            return state.records[number]?.inode
        }
    }

    /// An inode that has no name yet.
    func make(_ kind: Inode.Kind, _ attributes: FileAttributes) -> Inode {
        let number = state.withLock { state in
            defer { state.next += 1 }
            return state.next
        }
        return Inode(number: number, kind: kind, attributes: attributes)
    }

    /// Puts a new inode under a name in place of `known`; false when something else stands there by now.
    ///
    /// The kernel is told of it `lookups` times.
    func insert(
        _ inode: Inode,
        _ parent: InodeNumber,
        _ name: ObjectKey,
        replacing known: Inode?,
        lookups: UInt64 = 0
    ) -> Bool {
        state.withLock { state in
            let place = Place(parent: parent, name: name)
            guard state.places[place] == known?.number else { return false }
            if known != nil { Self.displace(place, &state) }
            state.records[inode.number] = Record(inode: inode, place: place, lookups: lookups)
            state.places[place] = inode.number
            state.records[parent]?.children += 1
            return true
        }
    }

    /// Puts an inode under a name, wherever it stood before, replacing what stood there.
    func place(_ inode: Inode, _ parent: InodeNumber, _ name: ObjectKey) {
        state.withLock { state in
            let place = Place(parent: parent, name: name)
            guard let record = state.records[inode.number], record.place != place else { return }
            if record.links.contains(place) {
                // Another name becomes the first one.
                state.records[inode.number]?.links.remove(place)
            } else {
                Self.displace(place, &state)
                state.places[place] = inode.number
                state.records[parent]?.children += 1
            }
            if let old = state.records[inode.number]?.place {
                state.places[old] = nil
                state.records[old.parent]?.children -= 1
            }
            state.records[inode.number]?.place = place
        }
    }

    /// Gives an inode one more name, replacing what stood there; false when the inode was forgotten just now.
    func addName(_ inode: Inode, _ parent: InodeNumber, _ name: ObjectKey) -> Bool {
        state.withLock { state in
            let place = Place(parent: parent, name: name)
            guard let record = state.records[inode.number] else { return false }
            if record.place == place || record.links.contains(place) { return true }
            Self.displace(place, &state)
            // What stood there may have been the last that kept it.
            guard state.records[inode.number] != nil else { return false }
            state.places[place] = inode.number
            state.records[inode.number]?.links.insert(place)
            state.records[parent]?.children += 1
            return true
        }
    }

    /// Counts that the kernel is told of the inode once more; false when it was forgotten just now.
    func retain(_ inode: Inode) -> Bool {
        state.withLock { state in
            guard state.records[inode.number] != nil else { return false }
            state.records[inode.number]?.lookups += 1
            return true
        }
    }

    /// The kernel forgot the inode `count` times.
    func forget(_ number: InodeNumber, count: UInt64) {
        state.withLock { state in
            guard let record = state.records[number] else { return }
            let lookups = record.lookups > count ? record.lookups - count : 0
            state.records[number]?.lookups = lookups
            guard lookups == 0 else { return }
            Self.collect(record.place == nil ? number : Self.retire(number, &state), &state)
        }
    }

    /// Keeps an inode that the kernel forgot for a while; returns the one to be given up for it, if any.
    private static func retire(_ number: InodeNumber, _ state: inout State) -> InodeNumber? {
        guard state.forgotten.count == forgottenLimit else {
            state.forgotten.append(number)
            return nil
        }
        defer {
            state.forgotten[state.oldest] = number
            state.oldest = (state.oldest + 1) % forgottenLimit
        }
        return state.forgotten[state.oldest]
    }

    /// Takes the name from the inode that stands there; it lives on while it is open.
    func remove(_ parent: InodeNumber, _ name: ObjectKey) -> Inode? {
        state.withLock { state in
            let place = Place(parent: parent, name: name)
            guard let number = state.places[place] else { return nil }
            let inode = state.records[number]?.inode
            Self.displace(place, &state)
            return inode
        }
    }

    /// Takes its name from an inode, if it has one.
    func removeName(of inode: Inode) {
        state.withLock { state in
            if let place = state.records[inode.number]?.place { Self.displace(place, &state) }
        }
    }

    /// Moves what stands under one name to another, replacing what stood there.
    ///
    /// Returns (moved, replaced).
    func move(
        _ parent: InodeNumber,
        _ name: ObjectKey,
        to newParent: InodeNumber,
        _ newName: ObjectKey
    ) -> (moved: Inode?, replaced: Inode?) {
        state.withLock { state in
            let old = Place(parent: parent, name: name)
            let new = Place(parent: newParent, name: newName)
            let replaced = state.places[new].flatMap { state.records[$0]?.inode }
            Self.displace(new, &state)
            guard let number = state.places.removeValue(forKey: old) else { return (nil, replaced) }
            Self.settle(number, from: old, at: new, &state)
            Self.collect(parent, &state)
            return (state.records[number]?.inode, replaced)
        }
    }

    /// Puts what stands under two names under each other's.
    ///
    /// Returns what is under the first and what is under the second then.
    func exchange(
        _ parent: InodeNumber,
        _ name: ObjectKey,
        _ newParent: InodeNumber,
        _ newName: ObjectKey
    ) -> (first: Inode?, second: Inode?) {
        state.withLock { state in
            let old = Place(parent: parent, name: name)
            let new = Place(parent: newParent, name: newName)
            let (one, two) = (state.places.removeValue(forKey: old), state.places.removeValue(forKey: new))
            if let one { Self.settle(one, from: old, at: new, &state) }
            if let two { Self.settle(two, from: new, at: old, &state) }
            return (two.flatMap { state.records[$0]?.inode }, one.flatMap { state.records[$0]?.inode })
        }
    }

    /// Puts an inode under another name in place of one that is no place's any more.
    private static func settle(_ number: InodeNumber, from old: Place, at new: Place, _ state: inout State) {
        state.places[new] = number
        if state.records[number]?.place == old {
            state.records[number]?.place = new
        } else if state.records[number]?.links.remove(old) != nil {
            state.records[number]?.links.insert(new)
        }
        state.records[new.parent]?.children += 1
        state.records[old.parent]?.children -= 1
    }

    /// All inodes that have a name, with their places.
    var named: [(inode: Inode, parent: InodeNumber, name: ObjectKey)] {
        state.withLock { state in
            state.records.values.compactMap { record in
                record.place.map { (record.inode, $0.parent, $0.name) }
            }
        }
    }

    /// The same with all the names of files that have several.
    var allNamed: [(inode: Inode, parent: InodeNumber, name: ObjectKey)] {
        state.withLock { state in
            state.records.values.flatMap { record in
                (Array(record.links) + (record.place.map { [$0] } ?? [])).map { (record.inode, $0.parent, $0.name) }
            }
        }
    }

    /// All inodes, for sealing at the end.
    var all: [Inode] { state.withLock { $0.records.values.map { $0.inode } } }

    private static func displace(_ place: Place, _ state: inout State) {
        guard let number = state.places.removeValue(forKey: place) else { return }
        if state.records[number]?.place == place {
            state.records[number]?.place = nil
        } else {
            state.records[number]?.links.remove(place)
        }
        state.records[place.parent]?.children -= 1
        collect(number, &state)
        collect(place.parent, &state)
    }

    /// Drops a record that neither the kernel nor a child's path needs, and then its parents.
    private static func collect(_ first: InodeNumber?, _ state: inout State) {
        guard var number = first else { return }
        while number != rootNumber, let record = state.records[number], record.lookups == 0, record.children <= 0 {
            state.records[number] = nil
            for link in record.links {
                state.places[link] = nil
                state.records[link.parent]?.children -= 1
                collect(link.parent, &state)
            }
            guard let place = record.place else { return }
            state.places[place] = nil
            state.records[place.parent]?.children -= 1
            number = place.parent
        }
    }

    private static func path(of number: InodeNumber, _ state: State) -> ObjectKey? {
        var parts: [ObjectKey] = []
        var current = number
        while current != rootNumber {
            guard let place = state.records[current]?.place else { return nil }
            parts.append(place.name)
            current = place.parent
        }
        return ObjectKey(bytes: Array(parts.reversed().map { $0.bytes }.joined(separator: [UInt8(ascii: "/")])))
    }
}
