// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Bandwidth
package import Conditions
package import Configuration
package import Control
package import ObjectStore
package import Platform
package import Policy

/// How a flusher is run.
package struct FlusherOptions: Sendable {
    package var directories: Directories
    /// Ends after this many seconds with nothing to do and no client; nil: never by itself.
    package var exitWhenIdle: Double?
    /// Names the program and its version to clients.
    package var program: String
    /// Names this machine in the names of conflict copies.
    package var host: String
    /// Pieces of work at once, over all volumes.
    package var workers: Int
    /// Of them uploads of large content.
    package var largeUploads: Int
    /// Parts of one file in flight at once.
    package var partsPerFile: Int
    /// Requests in flight at once, over all volumes.
    package var requests: Int
    /// How long deletions and replacements wait for programs that still read the file.
    package var readerPatience = ReaderWait.Patience()
    /// How much may go over networks that cost, of all volumes together.
    package var budget = ByteBudget.Limits()
    /// Who tells how hard the machine works; nil: nothing is known of it.
    package var stress: StressReader?
    /// Who tells of the machine's network and power; nil: nothing is known of them.
    package var conditions: (any ConditionSource)?
    /// Who tells when the machine is about to sleep; nil: nobody.
    package var sleep: (any SleepSource)?
    /// Makes requests from now on use new connections: kept ones did not outlive the machine's sleep.
    package var renewConnections: @Sendable () -> Void = {}
    /// The service manager that started this process and wants to hear of it.
    package var service: ServiceManager?
    /// The control socket, opened by the service manager; the flusher takes it over.
    package var socket: ActivatedSocket?
    /// What all processes of this instance may send and receive together; nil: no limit.
    package var bandwidth: SharedBandwidth?
    /// The settings of ``OptionName/limits`` for all volumes.
    package var limits = OptionValues()
    /// Which uploads stand back, for the transport.
    package var trafficRules = TrafficRules()
    /// What is told without being asked.
    package var watching = WatchingOptions()
    /// The flusher's own, of which programs that it runs get a part.
    package var environment: [String: String] = [:]

    package init(
        directories: Directories,
        exitWhenIdle: Double? = 30,
        program: String = "moorage",
        host: String? = nil,
        workers: Int = 8,
        largeUploads: Int = 4,
        partsPerFile: Int = 4,
        requests: Int = 8,
        conditions: (any ConditionSource)? = nil
    ) {
        self.directories = directories
        self.exitWhenIdle = exitWhenIdle
        self.program = program
        self.host = host ?? HostName.current
        self.workers = workers
        self.largeUploads = largeUploads
        self.partsPerFile = partsPerFile
        self.requests = requests
        self.conditions = conditions
    }
}

/// Makes the way to a volume's remote, without asking the remote anything.
///
/// The credentials are those a client handed over; nil: whatever this process finds itself. `.authentication` when
/// there are none.
package typealias StoreFactory =
    @Sendable (VolumeDescription, HandedCredentials?) throws(StoreError) -> any ObjectStore
