// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import BlockCache
internal import Configuration
internal import Control
internal import FuseBridge
internal import Glibc
internal import Platform

/// One thing that `moorage doctor` looked at.
struct Finding: Equatable {
    enum Verdict: String {
        case good = "ok"
        case notice = "note"
        case bad = "FAIL"
    }

    let verdict: Verdict
    /// What was found, and what to do when it is not good.
    let text: String
}

/// `moorage doctor`: looks at everything a mount needs and says what is missing.
enum DoctorCommand {
    static let definition = CommandDefinition(
        name: "doctor",
        operands: "",
        operandCount: 0...0,
        flags: [FlagDefinition("json", nil, "print one JSON document")],
        summary: "check everything a mount needs",
        details: "Exits with 1 when something is missing that has to be there."
    ) { arguments throws(CommandFailure) in
        var findings = [fuseDevice(), fusermount()]
        findings += allowOther()
        let instance: Instance
        do throws(CommandFailure) {
            instance = try Instance.current()
            findings.append(Finding(verdict: .good, text: "configuration: \(instance.directories.configuration)"))
        } catch {
            findings.append(Finding(verdict: .bad, text: error.message))
            return try show(findings, asJSON: arguments.has("json"))
        }
        let volumes = instance.volumes()
        findings += folders(instance.directories) + passthrough(instance.directories, volumes) + [flusher(instance)]
        findings += [instance.lingerWarning()].compactMap { $0 }.map { Finding(verdict: .notice, text: $0) }
        findings += volumes.flatMap { VolumeExamination.findings($0, instance) }
        return try show(findings, asJSON: arguments.has("json"))
    }

    private static func show(_ findings: [Finding], asJSON: Bool) throws(CommandFailure) -> Int32 {
        if asJSON {
            Console.bytes(try document(DoctorReport(findings)))
        } else {
            for finding in findings {
                Console.line(padding(finding.verdict.rawValue, 6) + Console.oneLine(finding.text))
            }
        }
        return findings.contains { $0.verdict == .bad } ? 1 : 0
    }

    private static func fuseDevice() -> Finding {
        guard access("/dev/fuse", F_OK) == 0 else {
            return Finding(verdict: .bad, text: "/dev/fuse is missing; load the module: modprobe fuse")
        }
        let isUsable = access("/dev/fuse", R_OK | W_OK) == 0
        return isUsable
            ? Finding(verdict: .good, text: "/dev/fuse can be opened")
            : Finding(verdict: .bad, text: "/dev/fuse cannot be opened by this user; see its permissions")
    }

    private static func fusermount() -> Finding {
        guard let path = ExternalProgram.find("fusermount3", path: ProcessEnvironment.value("PATH") ?? "") else {
            let isNeeded = geteuid() != 0
            return Finding(
                verdict: isNeeded ? .bad : .notice,
                text: "fusermount3 is not installed; install the package fuse3"
            )
        }
        let mode = (try? FileStatus.of(path))?.flatMap(\.mode) ?? 0
        if geteuid() != 0, mode & 0o4000 == 0 {
            return Finding(verdict: .bad, text: "\(path) is not setuid root; reinstall the package fuse3")
        }
        return Finding(verdict: .good, text: "fusermount3 is \(path)")
    }

    /// What the kernel may do with the user's cache, and with those of volumes that have one elsewhere.
    private static func passthrough(_ directories: Directories, _ volumes: [VolumeDescription]) -> [Finding] {
        let elsewhere = Set(volumes.compactMap(\.cacheDirectory)).subtracting([directories.cache])
        let caches = elsewhere.sorted().filter { ((try? FileStatus.of($0)) ?? nil) != nil }
        return [passthrough(directories.cache, "")] + caches.map { passthrough($0, ", cache in \($0)") }
    }

    private static func passthrough(_ cache: String, _ place: String) -> Finding {
        let canClone = BlockCache.canTakeSnapshots(in: cache)
        if let obstacle = PassthroughAbility.ofThisMachine(canClone: canClone).obstacle {
            let files = "files whole in the cache of read-only mounts\(place)"
            let text = "FUSE passthrough for \(files) is not used: \(obstacle)"
            return Finding(verdict: .notice, text: "\(text); their bytes go through the mount instead")
        }
        return Finding(
            verdict: .good,
            text: "files of read-only mounts\(place) that are whole in the cache when first opened are read by the "
                + "kernel (FUSE passthrough)"
        )
    }

    private static func allowOther() -> [Finding] {
        Mountpoint.mayLetOthersIn
            ? [] : [Finding(verdict: .notice, text: "allow_other needs user_allow_other in /etc/fuse.conf")]
    }

    private static func folders(_ directories: Directories) -> [Finding] {
        let all = [("state", directories.state), ("cache", directories.cache), ("runtime", directories.runtime)]
        return all.map { name, path in
            do throws(ConfigurationError) {
                try PrivateDirectory.prepare(path)
            } catch {
                return Finding(verdict: .bad, text: "\(name) folder: \(error.description)")
            }
            let free = (try? Files.freeSpace(at: path)) ?? 0
            let isTight = free < 1 << 30
            return Finding(
                verdict: isTight ? .notice : .good,
                text: "\(name) folder: \(path), \(humanBytes(free)) free"
            )
        }
    }

    private static func flusher(_ instance: Instance) -> Finding {
        do throws(CommandFailure) {
            guard let client = try instance.connectIfRunning() else {
                return Finding(verdict: .good, text: "flusher: not running; starts when there is something to send")
            }
            return Finding(verdict: .good, text: "flusher: running, pid \(client.flusherPID)")
        } catch {
            return Finding(verdict: .bad, text: "\(error.message); see \(instance.directories.flusherLog)")
        }
    }
}

/// The document of `doctor --json`.
struct DoctorReport: Codable {
    struct Item: Codable {
        /// `ok`, `note` or `fail`.
        var verdict: String
        var text: String
    }

    var findings: [Item]

    init(_ findings: [Finding]) {
        self.findings = findings.map { Item(verdict: $0.verdict.rawValue.lowercased(), text: $0.text) }
    }
}
