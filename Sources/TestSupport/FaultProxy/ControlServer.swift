// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Platform

/// Lets another process steer a ``FaultProxy``: one line a command, one line an answer.
///
/// Verbs: `rule`, `remove`, `release`, `wait`, `clear`, `limit`, `mode`, `cut`,
/// `cut-total`, `upstream`, `stats`, `requests`, `zero`. An answer is `ok ...`
/// or `error REASON`; `stats` and `requests` answer `ok ` and one JSON value.
package final class ControlServer: Sendable {
    /// Where the control listens.
    package let address: SocketAddress
    private let proxy: FaultProxy

    package init(
        _ proxy: FaultProxy,
        listen: SocketAddress = SocketAddress(port: 0)
    ) throws(SystemError) {
        self.proxy = proxy
        let listener = try LoopbackSocket.bound(to: listen, isListening: true)
        address = SocketAddress(host: listen.host, port: LoopbackSocket.port(of: listener))
        let number = listener.detach()
        try Thread.detached(name: "control-accept") { [self] in
            let listener = FileDescriptor(owning: number)
            while true {
                if let socket = try? LoopbackSocket.accept(listener, milliseconds: 1_000) { serve(socket) }
            }
        }
    }

    private func serve(_ socket: consuming FileDescriptor) {
        let stream = SocketStream(socket) { false }
        try? Thread.detached(name: "control") { [self] in
            while let line = stream.readLine() {
                let answer: String
                do throws(ControlLine.Refusal) {
                    answer = "ok " + (try perform(ControlLine(line)))
                } catch {
                    answer = "error \(error.reason)"
                }
                guard stream.write(Array((answer + "\n").utf8)) else { return }
            }
        }
    }

    private func perform(_ line: ControlLine) throws(ControlLine.Refusal) -> String {
        let plan = proxy.plan
        switch line.verb {
        case "rule": return "id=\(plan.add(try line.rule()))"
        case "remove": plan.remove(Int(try line.required("id")))
        case "release": plan.release(Int(try line.required("id")))
        case "wait": return try wait(line)
        case "clear":
            plan.clear()
            proxy.setMode(.pass)
        case "limit": try limit(line)
        case "mode": try setMode(line)
        case "cut": return "cut=\(proxy.cutAll(try line.cutStyle()))"
        case "cut-total": try cutTotal(line)
        case "upstream": try setUpstream(line)
        case "stats": return plan.statisticsJSON(connections: proxy.connectionCount)
        case "requests": return plan.recordsJSON
        case "zero": plan.zero()
        default: throw ControlLine.Refusal(reason: "unknown verb \(line.verb)")
        }
        return ""
    }

    private func wait(_ line: ControlLine) throws(ControlLine.Refusal) -> String {
        if let count = try line.number("detained") {
            let timeout = Double(try line.number("timeout") ?? 10)
            let detained = proxy.plan.waitForDetained(
                by: Int(try line.required("id")),
                count: Int(count),
                timeout: timeout
            )
            if detained < count { throw ControlLine.Refusal(reason: "timeout detained=\(detained)") }
            return "detained=\(detained)"
        }
        let count = Int(try line.number("matched") ?? 1)
        let timeout = Double(try line.number("timeout") ?? 10)
        let matched = proxy.plan.waitForMatches(of: Int(try line.required("id")), count: count, timeout: timeout)
        if matched < count { throw ControlLine.Refusal(reason: "timeout matched=\(matched)") }
        return "matched=\(matched)"
    }

    private func limit(_ line: ControlLine) throws(ControlLine.Refusal) {
        proxy.plan.limit(
            upload: try line.number("up").map(Int.init),
            download: try line.number("down").map(Int.init),
            latency: Int(try line.number("latency") ?? 0)
        )
    }

    private func setMode(_ line: ControlLine) throws(ControlLine.Refusal) {
        guard let mode = ConnectionMode(rawValue: line.text("to") ?? "") else {
            throw ControlLine.Refusal(reason: "mode needs to=pass|refuse|reset|blackhole")
        }
        proxy.setMode(mode)
    }

    private func cutTotal(_ line: ControlLine) throws(ControlLine.Refusal) {
        let offsets = (line.text("offsets") ?? "").split(separator: ",").compactMap { Int64($0) }
        guard !offsets.isEmpty else { throw ControlLine.Refusal(reason: "cut-total needs offsets=N,N") }
        let everyConnection = line.text("scope") == "all"
        proxy.plan.cut(
            atTotals: offsets,
            of: try line.direction(),
            try line.cutStyle(),
            everyConnection: everyConnection
        )
    }

    private func setUpstream(_ line: ControlLine) throws(ControlLine.Refusal) {
        guard let address = line.text("to").flatMap({ SocketAddress($0) }) else {
            throw ControlLine.Refusal(reason: "upstream needs to=HOST:PORT")
        }
        proxy.setUpstream(address)
    }
}
