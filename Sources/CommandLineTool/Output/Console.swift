// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc
internal import Synchronization

/// What a command prints.
enum Console {
    /// Whether standard output is a terminal.
    static var isTerminal: Bool { isatty(1) == 1 }

    /// The terminal's width in columns, 80 where it is unknown.
    static var width: Int {
        var size = winsize()
        guard ioctl(1, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// The terminal's size in columns and lines, 80 by 24 where it is unknown.
    static var size: (width: Int, height: Int) {
        var size = winsize()
        guard ioctl(1, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return (80, 24) }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Whether nobody reads standard output any more: the other end of a pipe, or the terminal, is gone.
    static var isAbandoned: Bool {
        var entry = pollfd(fd: 1, events: 0, revents: 0)
        return outputError != nil || poll(&entry, 1, 0) > 0 && entry.revents & Int16(POLLERR | POLLHUP | POLLNVAL) != 0
    }

    /// Prints a line on standard output.
    static func line(_ text: String) {
        write(text + "\n", to: 1)
    }

    /// Prints text as it is on standard output.
    static func text(_ text: String) {
        write(text, to: 1)
    }

    /// Prints bytes as they are on standard output.
    static func bytes(_ bytes: [UInt8]) {
        put(bytes, to: 1)
    }

    /// Prints `moorage: text` on standard error.
    static func note(_ text: String) {
        write("moorage: \(oneLine(text))\n", to: 2)
    }

    /// Control characters of a remote's names and answers must not drive a terminal or forge a line.
    static func oneLine(_ text: String) -> String {
        var scalars = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            scalars.append(scalar.properties.generalCategory == .control ? " " : scalar)
        }
        return String(scalars)
    }

    /// Why standard output took no more, nil while it takes all; a reader that left early (head, less) has EPIPE.
    static var outputError: Int32? { lostOutput.withLock { $0 } }

    private static let lostOutput = Mutex<Int32?>(nil)

    private static func write(_ text: String, to descriptor: Int32) {
        put(Array(text.utf8), to: descriptor)
    }

    private static func put(_ bytes: [UInt8], to descriptor: Int32) {
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.write(descriptor, $0.baseAddress.map { $0 + done }, $0.count - done)
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                let code = count < 0 ? errno : EIO
                if descriptor == 1 { lostOutput.withLock { $0 = $0 ?? code } }
                return
            }
            done += count
        }
    }
}
