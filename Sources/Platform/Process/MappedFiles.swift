// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Finds the file that an address belongs to, in what /proc/PID/maps tells (proc_pid_maps(5)).
///
/// It is for signal handlers: the compiler sees to it that nothing here allocates memory, takes a lock or counts a reference
/// (`@_noLocks`, "Performance annotations" in the Swift compiler's documentation).
package struct MappedFiles {
    /// What was found in a piece of the text; places are indices of it.
    package struct Look: Equatable {
        /// Whether the address is in one of its lines, and where the file's name is there; empty for memory without a file.
        package var isFound = false
        package var nameStart = 0
        package var nameEnd = 0
        /// How much was gone through: all lines that are whole.
        package var done = 0

        @_noLocks init() {}
    }

    /// Looks for the address in the whole lines of `text`.
    @_noLocks
    package static func look(for address: UInt, in text: UnsafeRawBufferPointer) -> Look {
        var result = Look()
        while !result.isFound, let end = endOfLine(text, from: result.done) {
            if isIn(address, text, from: result.done, to: end) {
                result.isFound = true
                result.nameStart = name(text, from: result.done, to: end)
                result.nameEnd = end
            }
            result.done = end &+ 1
        }
        return result
    }

    @_noLocks
    private static func endOfLine(_ text: UnsafeRawBufferPointer, from start: Int) -> Int? {
        var index = start
        while index < text.count {
            if text[index] == newline { return index }
            index &+= 1
        }
        return nil
    }

    /// Whether a line begins with a range, `7f0000000000-7f0000001000`, that has the address; what ends it is not in it.
    @_noLocks
    private static func isIn(_ address: UInt, _ text: UnsafeRawBufferPointer, from start: Int, to end: Int) -> Bool {
        var index = start
        let first = number(text, &index, end)
        guard index < end, text[index] == dash else { return false }
        index &+= 1
        let limit = number(text, &index, end)
        return address >= first && address < limit
    }

    @_noLocks
    private static func number(_ text: UnsafeRawBufferPointer, _ index: inout Int, _ end: Int) -> UInt {
        var value: UInt = 0
        while index < end {
            let byte = text[index]
            switch byte {
            case 0x30...0x39: value = value &<< 4 | UInt(byte &- 0x30)
            case 0x61...0x66: value = value &<< 4 | UInt(byte &- 0x57)
            default: return value
            }
            index &+= 1
        }
        return value
    }

    /// Where the name begins: behind range, permissions, offset, device and inode.
    @_noLocks
    private static func name(_ text: UnsafeRawBufferPointer, from start: Int, to end: Int) -> Int {
        var index = start
        var fields = 0
        while fields < 5 {
            while index < end, text[index] != space { index &+= 1 }
            while index < end, text[index] == space { index &+= 1 }
            fields &+= 1
        }
        return index
    }

    private static let newline: UInt8 = 0x0A
    private static let space: UInt8 = 0x20
    private static let dash: UInt8 = 0x2D
}
