// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc
internal import Platform

/// Tells when the machine is about to sleep or to end, and asks it to wait while something runs.
package protocol SleepSource: Sendable {
    /// Begins; `onHold` is called when nothing may run any more and answered with ``settled()``, `onGoOn` when everything
    /// may again. Neither may block.
    func start(
        onHold: @escaping @Sendable (Preparation) -> Void,
        onGoOn: @escaping @Sendable () -> Void
    ) throws(SystemError)
    /// What is left of what runs, for people; nil: nothing runs. Cheap when it is as before.
    func note(work: String?)
    /// Nothing runs any more.
    func settled()
    /// Gives the lock back and ends, soon.
    func stop()
}

/// logind on the system bus (org.freedesktop.login1(5)), by a thread and a connection of its own: while services of the
/// machine are slow to answer other questions, this must not wait.
package final class SleepWatcher: SleepSource {
    private struct Mail {
        var events: [SleepGuard.Event] = []
        var told: String?
        var toldAt = -Double.infinity
        var isStopping = false
    }

    private let wakeUp: FileDescriptor
    private let mail = Lock(Mail())

    package init() throws(SystemError) {
        let number = moorage_eventfd()
        guard number >= 0 else { throw SystemError.last("eventfd") }
        wakeUp = FileDescriptor(owning: number)
    }

    package func start(
        onHold: @escaping @Sendable (Preparation) -> Void,
        onGoOn: @escaping @Sendable () -> Void
    ) throws(SystemError) {
        guard let library = BusLibrary.load() else { return }
        try Thread.detached(name: "sleep") {
            let loop = SleepLoop(library, wakeUp: self.wakeUp.raw, onHold: onHold, onGoOn: onGoOn)
            while let events = self.take() { loop.turn(events) }
            loop.end()
        }
    }

    package func note(work: String?) {
        let now = monotonicSeconds()
        let isNews = mail.withLock { mail in
            // The text changes with every byte; the lock's own lives for a while.
            guard (work == nil) != (mail.told == nil) || work != mail.told && now >= mail.toldAt + SleepGuard.textAge
            else { return false }
            (mail.told, mail.toldAt) = (work, now)
            mail.events.append(.work(work))
            return true
        }
        if isNews { wake() }
    }

    package func settled() {
        mail.withLock { $0.events.append(.settled) }
        wake()
    }

    package func stop() {
        mail.withLock { $0.isStopping = true }
        wake()
    }

    /// What came for the thread; nil: it is to end.
    private func take() -> [SleepGuard.Event]? {
        mail.withLock { mail in
            defer { mail.events = [] }
            return mail.isStopping ? nil : mail.events
        }
    }

    private func wake() {
        let one: [UInt8] = [1, 0, 0, 0, 0, 0, 0, 0]
        try? wakeUp.write(one)
    }
}
