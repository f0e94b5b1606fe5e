// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CShims
internal import Glibc

/// Has the process say which file it dies of when a page of a file that it maps cannot be had.
///
/// The kernel answers with SIGBUS where the disk does not give a page, or has no room for it, or the file has become shorter
/// (mmap(2)), and the process would end without a word. SQLite maps the index of each database's log, we the bandwidth. Nothing
/// can be done without the page; what was acknowledged is on the disk.
///
/// The signal comes to the thread that touched the page, whatever it does and holds. So everything is prepared before, and the
/// handler calls what signal-safety(7) allows and nothing else, for which the compiler sees to it that Swift's runtime is not
/// called (`@_noLocks`); `_unsafePerformance` is around the calls of the C library, into which it cannot look.
package enum LostPage {
    /// What the handler needs; never freed.
    private struct Preparation {
        /// /proc/self/maps, opened before, as a process may have no descriptor left.
        let maps: Int32
        /// Room for pieces of that.
        let text: UnsafeMutableRawBufferPointer
        /// The line's pieces: the words before the name, the name, the words behind it.
        let line: UnsafeMutablePointer<iovec>
        let unnamed: iovec
        let before: UnsafeMutablePointer<sigaction>
        /// 1 once a thread is at it.
        let isTaken: UnsafeMutablePointer<Int64>
    }

    /// Longer than any line of the maps: PATH_MAX, each byte of which may be written as four.
    private static let textSize = 32 << 10
    nonisolated(unsafe) private static var preparation: UnsafeMutablePointer<Preparation>? = nil

    /// Begins; call it once, early.
    package static func tellOfIt() {
        guard preparation == nil else { return }
        let made = UnsafeMutablePointer<Preparation>.allocate(capacity: 1)
        made.initialize(to: prepare())
        preparation = made
        var action = sigaction()
        action.__sigaction_handler.sa_sigaction = { _, information, _ in LostPage.handle(information) }
        // Where a thread has a stack for signals, ours may be what is lost.
        action.sa_flags = SA_SIGINFO | SA_ONSTACK
        sigaction(SIGBUS, &action, made.pointee.before)
    }

    private static func prepare() -> Preparation {
        let line = UnsafeMutablePointer<iovec>.allocate(capacity: 3)
        line[0] = piece(Log.mark(.error) + "moorage: a page of ")
        line[2] = piece(
            " cannot be had (SIGBUS): its disk fails or is full, or somebody cut the file; ending, "
                + "what was acknowledged is in the journal and goes on at the next start\n"
        )
        let before = UnsafeMutablePointer<sigaction>.allocate(capacity: 1)
        before.initialize(to: sigaction())
        let isTaken = UnsafeMutablePointer<Int64>.allocate(capacity: 1)
        isTaken.initialize(to: 0)
        return Preparation(
            // Without it the line names no file.
            maps: (try? FileDescriptor.open("/proc/self/maps", O_RDONLY).detach()) ?? -1,
            text: .allocate(byteCount: textSize, alignment: 1),
            line: line,
            unnamed: piece("its memory"),
            before: before,
            isTaken: isTaken
        )
    }

    private static func piece(_ text: String) -> iovec {
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: text.utf8.count, alignment: 1)
        bytes.copyBytes(from: text.utf8)
        return iovec(iov_base: bytes.baseAddress, iov_len: bytes.count)
    }
}

// MARK: in the signal handler

extension LostPage {
    @_noLocks
    private static func handle(_ information: UnsafeMutablePointer<siginfo_t>?) {
        guard let prepared = preparation, let information else { return }
        // Another thread that lost a page, too, must not end the process before the line is written.
        guard isFirst(prepared) else { return sleep() }
        let isLost = information.pointee.si_code == BUS_ADRERR
        if isLost { tell(UInt(bitPattern: information.pointee._sifields._sigfault.si_addr), prepared) }
        goOn(prepared)
    }

    @_noLocks
    private static func isFirst(_ prepared: UnsafeMutablePointer<Preparation>) -> Bool {
        _unsafePerformance { moorage_atomic_replace(prepared.pointee.isTaken, 0, 1) } != 0
    }

    @_noLocks
    private static func sleep() {
        while true { _ = _unsafePerformance { pause() } }
    }

    /// Lets the handler before us have it, the runtime's backtrace perhaps, otherwise the kernel, which ends the process.
    ///
    /// It is sent again, and comes when we return: the instruction that failed might do well by then, and other threads sleep.
    @_noLocks
    private static func goOn(_ prepared: UnsafeMutablePointer<Preparation>) {
        _ = _unsafePerformance { sigaction(SIGBUS, prepared.pointee.before, nil) }
        _ = _unsafePerformance { raise(SIGBUS) }
    }

    /// Writes the line, piece by piece in one call.
    @_noLocks
    private static func tell(_ address: UInt, _ prepared: UnsafeMutablePointer<Preparation>) {
        let line = prepared.pointee.line
        line[1] = name(address, prepared)
        _ = _unsafePerformance { writev(2, line, 3) }
    }

    /// The name of the file that is mapped there.
    @_noLocks
    private static func name(_ address: UInt, _ prepared: UnsafeMutablePointer<Preparation>) -> iovec {
        let text = prepared.pointee.text
        var held = 0
        while let start = text.baseAddress, held < text.count {
            let count = _unsafePerformance { read(prepared.pointee.maps, start + held, text.count - held) }
            guard count > 0 else { break }
            held += count
            let look = MappedFiles.look(for: address, in: UnsafeRawBufferPointer(start: start, count: held))
            if look.isFound {
                guard look.nameEnd > look.nameStart else { break }
                return iovec(iov_base: start + look.nameStart, iov_len: look.nameEnd - look.nameStart)
            }
            // The beginning of a line stays.
            held -= look.done
            _ = _unsafePerformance { memmove(start, start + look.done, held) }
        }
        return prepared.pointee.unnamed
    }
}
