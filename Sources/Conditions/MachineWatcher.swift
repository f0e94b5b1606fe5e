// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc
internal import Platform
package import Policy

/// Tells of the machine's facts as they change.
package protocol ConditionSource: Sendable {
    /// Begins to tell, whenever something is another one than before or was seen again.
    ///
    /// With the facts comes whether everybody was asked by now.
    func start(_ report: @escaping @Sendable (_ facts: MachineFacts, _ isComplete: Bool) -> Void) throws(SystemError)
    /// Remotes are reached through these interfaces: what is known of the networks behind them is told too.
    func watch(_ interfaces: Set<String>)
    /// Tells no more, soon.
    func stop()
}

extension ConditionSource {
    package func watch(_ interfaces: Set<String>) {}
}

/// Watches the machine: the system bus, the kernel's routes and its power supplies.
///
/// One thread, which sleeps until one of them has news. Every minute all of them are asked again, so that a lost signal
/// is no harm for long and the age of a fact says that it still holds.
package final class MachineWatcher: ConditionSource {
    private let systemFolder: String
    private let lowDataNetworks: Set<String>
    /// Written to when the thread is to end.
    private let wakeUp: FileDescriptor
    private let isStopping = Lock(false)
    private let interfaces = Lock<Set<String>>([])

    /// `systemFolder` is `/sys`, or what stands in for it; `lowDataNetworks` names the connections over which the user
    /// wants little sent.
    package init(systemFolder: String = "/sys", lowDataNetworks: Set<String> = []) throws(SystemError) {
        self.systemFolder = systemFolder
        self.lowDataNetworks = lowDataNetworks
        let number = moorage_eventfd()
        guard number >= 0 else { throw SystemError.last("eventfd") }
        wakeUp = FileDescriptor(owning: number)
    }

    package func start(
        _ report: @escaping @Sendable (_ facts: MachineFacts, _ isComplete: Bool) -> Void
    ) throws(SystemError) {
        try Thread.detached(name: "conditions") {
            let state = ConditionState(at: .now(), lowDataNetworks: self.lowDataNetworks)
            let supplies = SupplyReader(root: self.systemFolder)
            let loop = WatchLoop(
                state,
                supplies: supplies,
                wakeUp: self.wakeUp.raw,
                interfaces: { self.interfaces.withLock { $0 } },
                report: report
            )
            while !self.isStopping.withLock({ $0 }) { loop.turn() }
        }
    }

    package func watch(_ interfaces: Set<String>) {
        let isNews = self.interfaces.withLock { known in
            defer { known = interfaces }
            return known != interfaces
        }
        if isNews { wake() }
    }

    package func stop() {
        isStopping.withLock { $0 = true }
        wake()
    }

    private func wake() {
        let one: [UInt8] = [1, 0, 0, 0, 0, 0, 0, 0]
        try? wakeUp.write(one)
    }
}

extension Moment {
    static var now: Moment { Moment(time: .now(), uptime: monotonicSeconds()) }
}
