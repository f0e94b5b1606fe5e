// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How the end of a message body is found.
package enum BodyFraming: Sendable, Hashable {
    case length(Int64)
    case chunked
    case untilClose
}

/// Follows the bytes of a message body to its end, without keeping any.
package struct BodyMeter: Sendable {
    /// The bytes of content so far; the framing of chunks is not content.
    package private(set) var payload: Int64 = 0
    package private(set) var isFinished: Bool
    private var state: State

    private enum State {
        case counted(Int64)
        case endless
        case chunkSize(Int64)
        case chunkExtension(Int64)
        case chunkData(Int64)
        case chunkEnd
        case trailer(lineLength: Int)
    }

    package init(_ framing: BodyFraming) {
        switch framing {
        case .length(let length):
            state = .counted(length)
            isFinished = length == 0
        case .chunked:
            state = .chunkSize(0)
            isFinished = false
        case .untilClose:
            state = .endless
            isFinished = false
        }
    }

    /// Takes the bytes that belong to the body and returns how many those are.
    package mutating func advance(_ bytes: UnsafeRawBufferPointer) -> Int {
        var index = 0
        while index < bytes.count, !isFinished {
            switch state {
            case .counted(let left):
                index += take(left, of: bytes.count - index)
            case .endless:
                payload += Int64(bytes.count - index)
                index = bytes.count
            case .chunkData(let left):
                index += take(left, of: bytes.count - index)
            default:
                framing(bytes[index])
                index += 1
            }
        }
        return index
    }

    private mutating func take(_ left: Int64, of present: Int) -> Int {
        let count = min(left, Int64(present))
        payload += count
        if case .counted = state {
            state = .counted(left - count)
            isFinished = left == count
        } else {
            state = left == count ? .chunkEnd : .chunkData(left - count)
        }
        return Int(count)
    }

    private mutating func framing(_ byte: UInt8) {
        let isEndOfLine = byte == 0x0A
        switch state {
        case .chunkSize(let size):
            if let digit = hexadecimal(byte) {
                state = .chunkSize(size << 4 | Int64(digit))
            } else {
                state = isEndOfLine ? afterSize(size) : .chunkExtension(size)
            }
        case .chunkExtension(let size):
            if isEndOfLine { state = afterSize(size) }
        case .chunkEnd:
            if isEndOfLine { state = .chunkSize(0) }
        case .trailer(let length):
            if byte == 0x0D { return }
            isFinished = isEndOfLine && length == 0
            state = .trailer(lineLength: isEndOfLine ? 0 : length + 1)
        case .counted, .endless, .chunkData:
            return
        }
    }

    private func afterSize(_ size: Int64) -> State {
        size == 0 ? .trailer(lineLength: 0) : .chunkData(size)
    }

    private func hexadecimal(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x41 + 10
        case 0x61...0x66: byte - 0x61 + 10
        default: nil
        }
    }
}
