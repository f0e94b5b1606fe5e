// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration

/// The unit files that let systemd run the flusher (systemd.service(5), systemd.socket(5), systemd.exec(5)).
///
/// Everything in them is known to systemd 252.
struct ServiceUnits: Sendable, Hashable {
    /// Which service manager they are for.
    enum Scope: String, Sendable, Hashable {
        /// Root's flusher, run by the manager of the machine.
        case system
        /// A user's own, run by the manager of that user.
        case user
    }

    static let serviceName = "moorage-flusher.service"
    static let socketUnitName = "moorage-flusher.socket"
    /// What the service manager calls the control socket.
    static let socketName = "control"

    let scope: Scope
    /// The program's absolute path.
    let executable: String
    let socket: String
    /// Folders that the flusher writes to; they have to be there when it starts.
    let writable: [String]
    /// Variables that say where its folders are, where those are not at the usual places.
    let environment: [String: String]
    /// Whether the kernel lets this user make the name spaces that keep the rest of the machine from being written to.
    let hasNamespaces: Bool

    var files: [(name: String, text: String)] {
        [(Self.serviceName, service), (Self.socketUnitName, socketUnit)]
    }

    private var socketUnit: String {
        """
        [Unit]
        Description=Moorage's control socket: who connects starts the flusher

        [Socket]
        ListenStream=\(escaped(socket))
        FileDescriptorName=\(Self.socketName)
        SocketMode=0600
        DirectoryMode=0700
        RemoveOnStop=yes

        [Install]
        WantedBy=sockets.target

        """
    }

    private var service: String {
        ([
            "[Unit]",
            "Description=Moorage: sends what is not remote yet",
            "Requires=\(Self.socketUnitName)",
            "After=\(Self.socketUnitName)" + (scope == .system ? " network.target" : ""),
            // What is pending must go on however often a remote or a disk brought it down.
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            "Type=notify",
            "NotifyAccess=main",
            "ExecStart=\(quoted(executable)) flusher --exit-when-idle 5m",
        ] + environment.sorted { $0.key < $1.key }.map { "Environment=" + quoted("\($0.key)=\($0.value)") } + [
            "Restart=on-failure",
            "RestartSec=2",
            "WatchdogSec=60",
            "TimeoutStopSec=90",
            // One that hangs may not even die of SIGABRT, as the watchdog wants it to.
            "TimeoutAbortSec=20",
            // A crash is just the end: the stack may hold a part of a secret, and takes minutes to print.
            "Environment=SWIFT_BACKTRACE=enable=no",
            "KillMode=mixed",
            "Nice=10",
            "IOSchedulingClass=idle",
            "UMask=0077",
            "",
        ] + hardening + [
            "",
            "[Install]",
            "WantedBy=\(scope == .system ? "multi-user.target" : "default.target")",
            "",
        ]).joined(separator: "\n")
    }

    /// What needs no privilege but no_new_privs, and what needs name spaces.
    private var hardening: [String] {
        [
            "NoNewPrivileges=yes",
            "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
            "RestrictNamespaces=yes",
            "RestrictRealtime=yes",
            "RestrictSUIDSGID=yes",
            "LockPersonality=yes",
            "MemoryDenyWriteExecute=yes",
            "SystemCallArchitectures=native",
            "SystemCallFilter=@system-service",
            "SystemCallFilter=~@privileged @keyring",
            "SystemCallErrorNumber=EPERM",
        ] + (hasNamespaces ? namespaces : [])
    }

    private var namespaces: [String] {
        [
            "CapabilityBoundingSet=",
            "ProtectSystem=strict",
            "ReadWritePaths=" + writable.map(quoted).joined(separator: " "),
            "PrivateTmp=\(writable.contains(where: isTemporary) ? "no" : "yes")",
            "PrivateMounts=yes",
        ] + (scope == .user ? ["PrivateUsers=yes"] : Self.againstRoot)
    }

    /// What root could do and the flusher never does; a user could not anyway.
    private static let againstRoot = [
        "PrivateDevices=yes", "ProtectClock=yes", "ProtectControlGroups=yes", "ProtectHostname=yes",
        "ProtectKernelLogs=yes", "ProtectKernelModules=yes", "ProtectKernelTunables=yes", "ProtectProc=invisible",
    ]

    /// Whether a folder would be hidden by a /tmp of the service's own.
    private func isTemporary(_ path: String) -> Bool {
        ["/tmp/", "/var/tmp/"].contains { path.hasPrefix($0) }
    }

    /// One word of a list, whatever is in it (systemd.syntax(7)).
    private func quoted(_ text: String) -> String {
        let isPlain = text.allSatisfy { $0.isLetter || $0.isNumber || "/._-+=:@".contains($0) }
        guard !isPlain else { return text }
        return "\"" + escaped(text).replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }

    /// A percent sign would begin a specifier (systemd.unit(5)).
    private func escaped(_ text: String) -> String {
        text.replacing("%", with: "%%")
    }
}
