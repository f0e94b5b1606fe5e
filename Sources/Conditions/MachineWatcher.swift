// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc
internal import Platform
package import Policy

/// Tells of the machine's facts as they change.
package protocol ConditionSource: Sendable {
    /// Begins to tell: once everything that answers was asked, and then whenever something is another one than before or
    /// was seen again.
    func start(_ report: @escaping @Sendable (MachineFacts) -> Void) throws(SystemError)
    /// Tells no more, soon.
    func stop()
}

/// Watches the machine: the system bus, the kernel's routes and its power supplies.
///
/// One thread, which sleeps until one of them has news. Every minute all of them are asked again, so that a lost signal
/// is no harm for long and the age of a fact says that it still holds.
package final class MachineWatcher: ConditionSource {
    private let systemFolder: String
    /// Written to when the thread is to end.
    private let wakeUp: FileDescriptor
    private let isStopping = Lock(false)

    /// `systemFolder` is `/sys`, or what stands in for it.
    package init(systemFolder: String = "/sys") throws(SystemError) {
        self.systemFolder = systemFolder
        let number = moorage_eventfd()
        guard number >= 0 else { throw SystemError.last("eventfd") }
        wakeUp = FileDescriptor(owning: number)
    }

    package func start(_ report: @escaping @Sendable (MachineFacts) -> Void) throws(SystemError) {
        try Thread.detached(name: "conditions") {
            let loop = WatchLoop(systemFolder: self.systemFolder, wakeUp: self.wakeUp.raw, report: report)
            while !self.isStopping.withLock({ $0 }) { loop.turn() }
        }
    }

    package func stop() {
        isStopping.withLock { $0 = true }
        let one: [UInt8] = [1, 0, 0, 0, 0, 0, 0, 0]
        try? wakeUp.write(one)
    }
}

extension Moment {
    static var now: Moment { Moment(time: .now(), uptime: monotonicSeconds()) }
}
