// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

extension OptionName {
    /// The row of the option table that describes this name.
    package var definition: OptionDefinition {
        switch self {
        case .endpoint, .region, .profile, .pathStyle, .anonymous, .connectTimeout, .stallTimeout:
            remoteDefinition
        case .username, .password, .bearerToken, .authorityFile, .clientCertificate, .clientKey:
            accessDefinition
        case .uploadProtocol, .partSize, .quietPeriod, .lateRequests, .parallelFiles, .parallelParts:
            uploadDefinition
        case .allowExpensive, .allowConstrained, .allowCellular, .allowPowerSaver, .discretionary, .discretionaryAbove,
            .requirePower, .batteryMinimum, .lowDataNetworks:
            conditionDefinition
        case .window, .notBefore, .deadline, .priority, .lifetime, .retryBase, .retryCap, .expensiveDaily,
            .expensiveMonthly:
            scheduleDefinition
        case .rateLimit, .maxRate, .maxDownloadRate, .yields, .lowEffort: bandwidthDefinition
        case .metricsListen, .notifications, .onIdle, .onAttention, .beforeStart, .hookTimeout: watchingDefinition
        case .readOnly, .noExecution, .allowOther, .uid, .gid, .umask, .metadataAge, .kernelAge,
            .serverModificationTime, .readahead, .fsync, .close:
            mountDefinition
        case .stateDirectory, .cacheDirectory, .cacheSize, .cacheFree, .blockSize, .stagingLimit, .stagingWait:
            storageDefinition
        }
    }

    func row(
        _ kind: OptionKind,
        _ scope: OptionScope,
        _ standard: String?,
        _ placeholder: String,
        _ summary: String
    ) -> OptionDefinition {
        OptionDefinition(
            name: self,
            kind: kind,
            scope: scope,
            standard: standard,
            placeholder: placeholder,
            summary: summary
        )
    }

    private var remoteDefinition: OptionDefinition {
        switch self {
        case .endpoint:
            row(
                .text,
                .volume,
                nil,
                "URL",
                "The S3 server, http:// or https://. Otherwise AWS_ENDPOINT_URL, otherwise Amazon S3."
            )
        case .region:
            row(.text, .volume, nil, "NAME", "The region to sign for. Otherwise AWS_REGION, otherwise the profile's.")
        case .profile:
            row(.text, .volume, nil, "NAME", "The section of the AWS files to take credentials from.")
        case .pathStyle:
            row(.flag, .volume, nil, "", "Address the bucket in the path. Default: when an endpoint is set.")
        case .anonymous:
            row(.flag, .volume, "false", "", "Send unsigned requests when there are no credentials.")
        case .connectTimeout:
            row(.seconds(1...300), .policy, "10s", "TIME", "Give up connecting to the remote after this time.")
        default:
            row(.seconds(5...3600), .policy, "30s", "TIME", "Give up a request when nothing moved for this time.")
        }
    }

    private var accessDefinition: OptionDefinition {
        switch self {
        case .username:
            row(.text, .section, nil, "NAME", "http: the login's name. Otherwise the host's entry of ~/.netrc.")
        case .password:
            row(.text, .section, nil, "TEXT", "http: the login's password.")
        case .bearerToken:
            row(.text, .section, nil, "TEXT", "http: a token to show instead of a name and password.")
        case .authorityFile:
            row(.path, .volume, nil, "PATH", "https: trust the certificates in this file instead of the system's.")
        case .clientCertificate:
            row(.path, .volume, nil, "PATH", "https: show the server this certificate (PEM).")
        default:
            row(.path, .volume, nil, "PATH", "https: the certificate's key (PEM). Default: in the same file.")
        }
    }

    private var uploadDefinition: OptionDefinition {
        switch self {
        case .uploadProtocol:
            row(
                .choice(["auto", "put", "s3-multipart", "ietf-resumable"]),
                .policy,
                "auto",
                "NAME",
                "How files are sent. auto: small files with PUT, others resumable where the server can, else multipart."
            )
        case .partSize:
            row(
                .bytes(5 << 20...5 << 30),
                .policy,
                nil,
                "SIZE",
                "The size of a part of a multipart upload. Default: chosen by the file's size."
            )
        case .quietPeriod:
            row(
                .seconds(0...86_400),
                .policy,
                "2s",
                "TIME",
                "Send a file only when it was not changed for this time, so that temporary names never reach the remote."
            )
        case .lateRequests:
            row(
                .seconds(0...3600),
                .policy,
                "2m",
                "TIME",
                "How long the remote may still carry out a request whose answer was lost; looked after until then."
            )
        case .parallelFiles:
            row(
                .number(1...64),
                .flusher,
                "4",
                "COUNT",
                "How many large files, from 8M, are sent at once. Of small ones: up to eight."
            )
        default:
            row(.number(1...16), .flusher, "4", "COUNT", "How many parts of one file are sent at once.")
        }
    }

    private var conditionDefinition: OptionDefinition {
        switch self {
        case .allowExpensive:
            row(.flag, .policy, "false", "", "Send over networks that are known to be metered, unasked.")
        case .allowConstrained:
            row(.flag, .policy, "false", "", "Send over networks marked low-data, unasked; see low_data_networks.")
        case .allowCellular:
            row(.flag, .policy, "true", "", "Send over mobile networks that are not metered, unasked.")
        case .allowPowerSaver:
            row(.flag, .policy, "false", "", "Send while the machine's power profile is power-saver, unasked.")
        case .discretionary:
            row(
                .flag,
                .policy,
                "false",
                "",
                "It has time: send only on external power, over networks that cost nothing, whatever else is allowed."
            )
        case .discretionaryAbove:
            row(
                .bytes(1...1 << 50),
                .policy,
                nil,
                "SIZE",
                "Files of this size or more have time, as with discretionary."
            )
        case .requirePower:
            row(.flag, .policy, "false", "", "Send only on external power, unless asked.")
        case .lowDataNetworks:
            row(
                .text,
                .flusher,
                nil,
                "NAMES",
                "Over which networks little is to be sent: NetworkManager's connections by name or UUID, wireless ones by name (SSID); separated by commas."
            )
        default:
            row(.number(0...100), .policy, "20", "PERCENT", "On battery, send nothing unasked below this charge.")
        }
    }

    private var scheduleDefinition: OptionDefinition {
        switch self {
        case .window:
            row(.window, .policy, nil, "TIMES", "Send only at these times of the week, by local time, unless asked.")
        case .notBefore:
            row(.moment, .policy, nil, "MOMENT", "Send nothing before: a date, or so long after a file's last change.")
        case .deadline:
            row(
                .moment,
                .policy,
                nil,
                "MOMENT",
                "When a file should have gone: shortly before, it goes ahead of others, and no window holds it."
            )
        case .priority: row(.number(-100...100), .policy, "0", "NUMBER", "Files with a higher one go first.")
        case .lifetime:
            row(
                .seconds(1...31_536_000),
                .policy,
                "7d",
                "TIME",
                "What could not be sent for this time asks for attention; it goes on being tried."
            )
        case .retryBase:
            row(.seconds(0.1...3600), .policy, "1s", "TIME", "The wait after a failed attempt, doubled with each more.")
        case .retryCap: row(.seconds(1...86_400), .policy, "5m", "TIME", "The longest wait after a failed attempt.")
        case .expensiveDaily:
            row(
                .bytes(1 << 20...1 << 50),
                .policy,
                nil,
                "SIZE",
                "How much may go over metered networks a day, unasked: of a volume, of paths, or of files with as "
                    + "much; in [policy], of all together."
            )
        default:
            row(
                .bytes(1 << 20...1 << 50),
                .policy,
                nil,
                "SIZE",
                "How much may go over metered networks a month, unasked: of a volume, of paths, or of files with as "
                    + "much; in [policy], of all together."
            )
        }
    }

    private var bandwidthDefinition: OptionDefinition {
        switch self {
        case .rateLimit:
            row(
                .rate,
                .policy,
                nil,
                "RATE",
                "The most that is sent of one volume, or of paths that have a limit of their own; see max_rate for all."
            )
        case .maxRate:
            row(
                .rate,
                .flusher,
                "off",
                "RATE",
                "The most that is sent, all uploads together: a rate, or a timetable such as 08:00,512K 19:00,off."
            )
        case .maxDownloadRate:
            row(.rate, .flusher, "off", "RATE", "The most that is received, by all mounts and uploads together.")
        case .yields:
            row(
                .choice(["discretionary", "background", "never"]),
                .flusher,
                "discretionary",
                "CLASS",
                "Which uploads slow down while others use the line: discretionary ones, all unasked ones, or none."
            )
        default:
            row(
                .flag,
                .flusher,
                "true",
                "",
                "Mark uploads that nobody waits for as lower effort (DSCP LE), for routers that honour it."
            )
        }
    }

    private var mountDefinition: OptionDefinition {
        switch self {
        case .readOnly:
            row(.flag, .volume, "false", "", "Mount read-only.")
        case .noExecution:
            row(.flag, .volume, "false", "", "Let no program in the mount be run.")
        case .allowOther:
            row(
                .flag,
                .volume,
                "false",
                "",
                "Let other users in; needs user_allow_other in /etc/fuse.conf unless root."
            )
        case .uid:
            row(.number(0...4_294_967_294), .volume, nil, "ID", "Owner of files that carry none. Default: who mounts.")
        case .gid:
            row(.number(0...4_294_967_294), .volume, nil, "ID", "Group of files that carry none. Default: who mounts.")
        case .umask:
            row(.octal(0...0o777), .volume, "022", "MODE", "Permission bits taken from files that carry no mode.")
        case .metadataAge:
            row(
                .seconds(0...86_400),
                .policy,
                "10s",
                "TIME",
                "How old names and attributes may be before the remote is asked again."
            )
        case .serverModificationTime:
            row(
                .flag,
                .volume,
                "false",
                "",
                "S3: show the server's time and the default mode instead of asking for what a listing does not tell."
            )
        case .readahead:
            row(
                .bytes(0...1 << 30),
                .policy,
                "64M",
                "SIZE",
                "How far ahead of a reader to fetch at most; with 0 only the blocks that are read."
            )
        case .fsync:
            row(
                .choice(["local", "remote"]),
                .policy,
                "local",
                "WHERE",
                "What fsync waits for: that it is safe on the local disk, or that it is at the remote."
            )
        case .close:
            row(
                .choice(["local", "remote"]),
                .policy,
                "local",
                "WHERE",
                "What the last writer's close waits for: that the content is kept here, or that it is at the remote."
            )
        default:
            row(
                .seconds(0...3600),
                .policy,
                "1s",
                "TIME",
                "How long the kernel may keep names and attributes; not longer than metadata_age, unless that is 0."
            )
        }
    }

    private var storageDefinition: OptionDefinition {
        switch self {
        case .stateDirectory:
            row(.path, .volume, nil, "PATH", "Keep this volume's journal and unsent data in this folder.")
        case .cacheDirectory:
            row(.path, .volume, nil, "PATH", "Keep this volume's cache in this folder.")
        case .cacheSize:
            row(.bytes(0...1 << 50), .policy, "10G", "SIZE", "How much the cache of a volume may take.")
        case .cacheFree:
            row(.bytes(0...1 << 50), .policy, "1G", "SIZE", "How much of the disk the cache leaves free.")
        case .stagingLimit:
            row(
                .bytes(16 << 20...1 << 50),
                .policy,
                nil,
                "SIZE",
                "How much content that is not sent may take here before writers wait. Default: what the disk has."
            )
        case .stagingWait:
            row(.seconds(0...86_400), .policy, "60s", "TIME", "How long they wait for uploads before they get ENOSPC.")
        default:
            row(.bytes(4 << 10...16 << 20), .volume, "32K", "SIZE", "The unit of caching, a power of two.")
        }
    }
}
