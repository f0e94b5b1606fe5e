// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Glibc
import Journal
import Platform

/// A disk whose syncs fail as they are told to, once each, as the kernel reports them.
final class DiskFaults: Sendable {
    struct State {
        /// The generations whose next fdatasync fails.
        var data: Set<String> = []
        var names = false
        var everything = false
        /// The calls so far.
        var calls: [String] = []
    }

    let state = Monitor(State())

    var disk: DiskSync {
        var disk = DiskSync()
        let state = state
        disk.data = { descriptor in
            let name = Self.name(descriptor)
            return state.update { $0.note("data \(name)", $0.data.remove(name) != nil) }
        }
        disk.names = { _ in
            state.update { state in
                defer { state.names = false }
                return state.note("names", state.names)
            }
        }
        disk.everything = { _ in
            state.update { state in
                defer { state.everything = false }
                return state.note("everything", state.everything)
            }
        }
        return disk
    }

    func fail(_ generation: GenerationID) {
        state.update { _ = $0.data.insert("\(generation)") }
    }

    /// The calls since the last time.
    func calls() -> [String] {
        state.update { state in
            defer { state.calls = [] }
            return state.calls
        }
    }

    private static func name(_ descriptor: Int32) -> String {
        var buffer = [UInt8](repeating: 0, count: 512)
        let count = buffer.withUnsafeMutableBytes { bytes in
            bytes.withMemoryRebound(to: CChar.self) { characters in
                characters.baseAddress.map { readlink("/proc/self/fd/\(descriptor)", $0, characters.count) } ?? 0
            }
        }
        let path = String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
        return String(path.split(separator: "/").last ?? "")
    }
}

extension DiskFaults.State {
    fileprivate mutating func note(_ call: String, _ fails: Bool) -> Int32 {
        calls.append(call)
        return fails ? EIO : 0
    }
}
