// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Every setting there is.
///
/// The raw value is its name in `-o`, in the configuration file and in the documentation.
package enum OptionName: String, Hashable, Sendable, CaseIterable {
    // The remote.
    case endpoint
    case region
    case profile
    case pathStyle = "path_style"
    case anonymous
    case username
    case password
    case bearerToken = "bearer_token"
    case authorityFile = "ca_file"
    case clientCertificate = "client_cert"
    case clientKey = "client_key"
    case connectTimeout = "connect_timeout"
    case stallTimeout = "stall_timeout"
    // Uploads.
    case uploadProtocol = "upload_protocol"
    case partSize = "part_size"
    case quietPeriod = "quiet_period"
    case lateRequests = "late_requests"
    case parallelFiles = "parallel_files"
    case parallelParts = "parallel_parts"
    // Conditions.
    case allowExpensive = "allow_expensive"
    case allowConstrained = "allow_constrained"
    case allowCellular = "allow_cellular"
    case allowPowerSaver = "allow_power_saver"
    case discretionary
    case discretionaryAbove = "discretionary_above"
    case requirePower = "require_power"
    case batteryMinimum = "battery_min"
    case window
    case notBefore = "not_before"
    case deadline
    case priority
    case lifetime
    case retryBase = "retry_base"
    case retryCap = "retry_cap"
    case expensiveDaily = "expensive_daily"
    case expensiveMonthly = "expensive_monthly"
    case lowDataNetworks = "low_data_networks"
    // Bandwidth.
    case rateLimit = "rate_limit"
    case maxRate = "max_rate"
    case maxDownloadRate = "max_download_rate"
    case yields = "yield"
    case lowEffort = "low_effort"
    // What is told unasked.
    case metricsListen = "metrics_listen"
    case notifications
    case onIdle = "on_idle"
    case onAttention = "on_attention"
    case beforeStart = "before_start"
    case hookTimeout = "hook_timeout"
    // The mount.
    case readOnly = "ro"
    case noExecution = "noexec"
    case allowOther = "allow_other"
    case uid
    case gid
    case umask
    case metadataAge = "metadata_age"
    case serverModificationTime = "use_server_modtime"
    case kernelAge = "kernel_age"
    case readahead
    case fsync
    case close
    // Local state.
    case stateDirectory = "state_dir"
    case cacheDirectory = "cache_dir"
    case cacheSize = "cache_size"
    case cacheFree = "cache_free"
    case blockSize = "block_size"
    case stagingLimit = "staging_limit"
    case stagingWait = "staging_wait"
}

/// What a setting's text means.
package enum OptionKind: Hashable, Sendable {
    /// Present or absent; in the file `true`/`false`, `yes`/`no`, `on`/`off`, `1`/`0`.
    case flag
    /// Any text that is not empty.
    case text
    /// An absolute path.
    case path
    /// A program's absolute path and its arguments, see ``ArgumentWords``.
    case program
    /// See ``ListeningPlace``.
    case loopback
    /// One of these words.
    case choice([String])
    /// A decimal number within the range, with a sign where that allows negative ones.
    case number(ClosedRange<Int64>)
    /// File mode bits in octal digits, within the range.
    case octal(ClosedRange<Int64>)
    /// Bytes: a number with an optional `K`, `M`, `G` or `T` (powers of 1,024), within the range.
    case bytes(ClosedRange<Int64>)
    /// Bytes a second, or a timetable of such rates.
    case rate
    /// Time: a number with an optional `ms`, `s`, `m`, `h` or `d` (seconds when there is none), within the range.
    case seconds(ClosedRange<Double>)
    /// Times of the week, as `TransferWindows` reads them.
    case window
    /// A moment, as `TimeRule` reads it.
    case moment
}

/// Where a setting may stand.
package enum OptionScope: String, Hashable, Sendable {
    /// `-o` of mount and `[volume NAME]`.
    case volume
    /// `[volume NAME]` alone: secrets, which no command line may hold.
    case section
    /// The same, and `[policy]` for all volumes.
    case policy
    /// `[policy]` alone: the flusher that all volumes share.
    case flusher
}

/// One row of the table from which option parsing, file parsing, help and documentation come.
package struct OptionDefinition: Sendable {
    package let name: OptionName
    package let kind: OptionKind
    package let scope: OptionScope
    /// The default, in the form that the kind parses; nil when unset means something of its own.
    package let standard: String?
    /// What to print after the name in help, such as `URL`.
    package let placeholder: String
    /// One sentence or two for people.
    package let summary: String
}
