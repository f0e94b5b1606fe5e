// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import HTTPWire
import ResumableUpload
import TestSupport
import Testing

/// Drives machines against a simulated server, killing the driver now and then.
struct UploadRun {
    var server: SimulatedServer
    let content: [UInt8]
    var base = UploadIntent.Foundation.absent
    var options = ResumableUploadMachine.Options(pieceSize: 700)
    var support = ResumableSupport.unknown
    /// How often the process of the driver is killed, in percent of the steps.
    var killPercent = 0
    /// How often the server loses all uploads, in percent of the steps.
    var amnesiaPercent = 0

    private(set) var journal: ResumableUploadState?
    private(set) var steps = 0
    private(set) var methods: [String] = []
    private(set) var waits = 0

    init(server: SimulatedServer, content: [UInt8]) {
        self.server = server
        self.content = content
    }

    private var intent: UploadIntent { UploadIntent(size: Int64(content.count), base: base) }

    private func machine() -> ResumableUploadMachine {
        if let journal {
            return ResumableUploadMachine(
                resuming: journal,
                intent: intent,
                creationFields: HTTPFields(),
                options: options
            )
        }
        return ResumableUploadMachine(
            intent: intent,
            creationFields: HTTPFields(),
            support: support,
            options: options
        )
    }

    /// Runs to the end; nil when it does not come within 20,000 steps.
    mutating func run(cancelAfter: Int = .max) -> ResumableUploadMachine.Action? {
        var current = machine()
        var action = current.start()
        while steps < 20_000 {
            steps += 1
            if server.generator.chance(amnesiaPercent) { server.forgetEverything() }
            if server.generator.chance(killPercent) {
                current = machine()
                action = current.start()
            }
            if steps == cancelAfter { current.cancel() }
            switch action {
            case .send(let request): action = current.handle(send(request))
            case .journal(let state):
                journal = state
                action = current.handle(.journalled)
            case .wait:
                waits += 1
                action = current.handle(.waited)
            case .verifyTarget:
                action = current.handle(.target(server.targetVersion, expectedTag: SimulatedServer.tag(content)))
            case .done, .conflict, .unsupported, .failed, .cancelled: return action
            }
        }
        return nil
    }

    private mutating func send(_ request: ResumableUploadMachine.Request) -> ResumableUploadMachine.Event {
        methods.append(request.method)
        guard let response = server.serve(request, content: content) else {
            return .failed(.unreachable, retryAfter: nil)
        }
        return .response(response)
    }
}

@Suite struct ResumableUploadMachineTests {
    private func isDone(_ action: ResumableUploadMachine.Action?) -> Bool {
        if case .done = action { true } else { false }
    }

    @Test(arguments: InteropVersion.allCases)
    func aSmoothUploadSendsEveryByteOnce(version: InteropVersion) {
        for size: Int64 in [0, 1, 699, 700, 701, 5000] {
            var server = SimulatedServer(seed: 1)
            server.version = version
            var run = UploadRun(server: server, content: pattern(size))
            #expect(isDone(run.run()))
            #expect(run.server.target == run.content)
            #expect(run.server.contentBytes == size)
            #expect(run.waits == 0)
            #expect(run.journal?.version == version)
        }
    }

    @Test func knownSupportNeedsNoDiscovery() {
        var run = UploadRun(server: SimulatedServer(seed: 1), content: pattern(10))
        run.support = .version(.v9)
        #expect(isDone(run.run()))
        #expect(run.methods == ["PUT", "PATCH"])
    }

    @Test(arguments: InteropVersion.allCases, [0, 1, 2])
    func aLossyNetworkCostsOnlyWhatWasInFlight(version: InteropVersion, kind: Int) {
        for seed in UInt64(1)...60 {
            var server = SimulatedServer(seed: seed)
            server.version = version
            server.faultPercent = 30
            server.forgetsEnded = kind == 1
            server.saysNothingAtTheEnd = kind == 2
            var run = UploadRun(server: server, content: pattern(4000))
            run.support = .version(version)
            run.killPercent = 3
            let result = run.run()
            #expect(isDone(result), "seed \(seed): \(String(describing: result))")
            #expect(run.server.target == run.content, "seed \(seed)")
            #expect(run.server.commits == 1, "seed \(seed)")
            // What the server received it kept, so nothing is sent twice.
            #expect(run.server.contentBytes == 4000, "seed \(seed)")
        }
    }

    @Test func aForgetfulServerGetsEverythingAgainButNothingIsLost() {
        for seed in UInt64(1)...100 {
            var server = SimulatedServer(seed: seed)
            server.faultPercent = 10
            var run = UploadRun(server: server, content: pattern(4000))
            run.killPercent = 2
            run.amnesiaPercent = 2
            let result = run.run()
            if case .failed(.noSuchUpload) = result { continue }
            #expect(isDone(result), "seed \(seed): \(String(describing: result))")
            #expect(run.server.target == run.content, "seed \(seed)")
            #expect(run.server.commits == 1, "seed \(seed)")
        }
    }

    @Test func appendLimitsAreKept() {
        var server = SimulatedServer(seed: 5)
        server.limits = UploadLimits(maxAppendSize: 100)
        server.faultPercent = 20
        var run = UploadRun(server: server, content: pattern(2050))
        #expect(isDone(run.run()))
        #expect(run.server.target == run.content)
    }

    @Test func anUnspokenLimitShrinksThePieces() {
        var machine = ResumableUploadMachine(
            resuming: ResumableUploadState(resource: "http://h/u", version: .v9, length: 64 << 20),
            intent: UploadIntent(size: 64 << 20, base: .absent),
            creationFields: HTTPFields(),
            options: .init(pieceSize: 16 << 20)
        )
        var action = machine.start()
        var sizes: [Int64] = []
        for _ in 0..<9 {
            guard case .send(let request) = action else { break }
            var fields = HTTPFields()
            fields["Upload-Offset"] = "0"
            if let body = request.body, request.method == "PATCH" { sizes.append(body.count) }
            let status = request.method == "PATCH" ? 413 : 204
            action = machine.handle(.response(.init(status: status, fields: fields, url: "http://h/u")))
            if case .wait = action { action = machine.handle(.waited) }
        }
        #expect(sizes == [16 << 20, 8 << 20, 4 << 20, 2 << 20])
    }

    @Test func whatTheServerTakesNotIsLeftToAnotherProtocol() {
        var server = SimulatedServer(seed: 1)
        server.limits = UploadLimits(maxSize: 10)
        var run = UploadRun(server: server, content: pattern(11))
        #expect(run.run() == .unsupported)
        #expect(run.methods == ["OPTIONS"])
    }

    @Test func aServerWithoutSupportIsAskedForEachVersionOnce() {
        var machine = ResumableUploadMachine(
            intent: UploadIntent(size: 5, base: .absent),
            creationFields: HTTPFields()
        )
        var action = machine.start()
        var asked: [String?] = []
        while case .send(let request) = action {
            #expect(request.method == "OPTIONS")
            asked.append(request.fields["Upload-Draft-Interop-Version"])
            action = machine.handle(.response(.init(status: 403, fields: HTTPFields(), url: "http://h/k")))
        }
        #expect(asked == ["9", "8", "7", "6", "5", "4", "3", nil])
        #expect(action == .unsupported)
        #expect(machine.support == .none)
    }

    @Test func aServerThatBreaksOffAtOptionsIsLeftToAnotherProtocol() {
        for fault in [TransferFault.temporary, .unreachable] {
            var machine = ResumableUploadMachine(
                intent: UploadIntent(size: 5, base: .absent),
                creationFields: HTTPFields()
            )
            var action = machine.start()
            for _ in 0..<10 {
                if case .send = action { action = machine.handle(.failed(fault, retryAfter: nil)) }
                if case .wait = action { action = machine.handle(.waited) }
            }
            // Without a connection nothing is learned, so that is waited for.
            #expect((action == .unsupported) == (fault == .temporary))
            #expect(machine.support == .unknown)
        }
    }

    @Test func theServersHintIsFollowed() {
        var machine = ResumableUploadMachine(
            intent: UploadIntent(size: 5, base: .absent),
            creationFields: HTTPFields()
        )
        _ = machine.start()
        var hint = HTTPFields()
        hint["Upload-Draft-Interop-Version"] = "6"
        let action = machine.handle(.response(.init(status: 400, fields: hint, url: "http://h/k")))
        guard case .send(let request) = action else {
            Issue.record("no request")
            return
        }
        #expect(request.fields["Upload-Draft-Interop-Version"] == "6")
    }

    @Test func aPlainServerThatSwallowsTheCreationIsNotBelieved() {
        var machine = ResumableUploadMachine(
            intent: UploadIntent(size: 5, base: .absent),
            creationFields: HTTPFields(),
            support: .version(.v9)
        )
        _ = machine.start()
        #expect(machine.handle(.response(.init(status: 200, fields: HTTPFields(), url: "http://h/k"))) == .unsupported)
        #expect(machine.support == .none)
    }

    @Test func foreignContentAtTheTargetIsAConflictAndTheUploadIsDeleted() {
        var server = SimulatedServer(seed: 3)
        server.target = pattern(3)
        server.precondition = .some(nil)
        var run = UploadRun(server: server, content: pattern(900))
        #expect(run.run() == .conflict(run.server.targetVersion))
        #expect(run.server.target == pattern(3))
        #expect(run.server.uploads.isEmpty)
    }

    @Test func ourOwnLostSuccessIsNoConflict() {
        for seed in UInt64(1)...200 {
            var server = SimulatedServer(seed: seed)
            server.faultPercent = 40
            server.precondition = .some(nil)
            server.forgetsEnded = seed % 2 == 0
            var run = UploadRun(server: server, content: pattern(1500))
            run.killPercent = 5
            let result = run.run()
            #expect(isDone(result), "seed \(seed): \(String(describing: result))")
            #expect(run.server.commits == 1)
        }
    }

    @Test(arguments: 1..<11)
    func cancellingDeletesTheUpload(step: Int) {
        var run = UploadRun(server: SimulatedServer(seed: 1), content: pattern(5000))
        #expect(run.run(cancelAfter: step) == .cancelled)
        #expect(run.server.uploads.isEmpty)
        #expect(run.server.commits == 0)
    }

    @Test func interimAnswersNameTheResourceAndAcknowledge() {
        var machine = ResumableUploadMachine(
            intent: UploadIntent(size: 100, base: .absent),
            creationFields: HTTPFields(),
            support: .version(.v9)
        )
        _ = machine.start()
        let announcement = UploadReply.announcement(.v9, location: "/u", limits: UploadLimits())
        #expect(machine.informational(status: 104, fields: announcement, url: "http://h/k") == nil)
        // The final answer is lost: the offset of the announced resource is asked, then it is journalled.
        #expect(machine.handle(.failed(.unreachable, retryAfter: nil)) == .wait(TransferPause(.unreachable)))
        guard case .send(let head) = machine.handle(.waited) else {
            Issue.record("no request")
            return
        }
        #expect(head.method == "HEAD" && head.target == .resource("http://h/u"))
        let state = UploadReply.State(offset: 0, isComplete: false)
        let told = UploadReply.offset(.v9, state: state)
        let next = machine.handle(.response(.init(status: 204, fields: told, url: "http://h/u")))
        #expect(next == .journal(ResumableUploadState(resource: "http://h/u", version: .v9, offset: 0, length: 100)))
        _ = machine.handle(.journalled)
        let progress = UploadReply.progress(.v9, offset: 60)
        #expect(machine.informational(status: 104, fields: progress, url: "http://h/u") == 60)
        let foreign = UploadReply.progress(.v8, offset: 70)
        #expect(machine.informational(status: 104, fields: foreign, url: "http://h/u") == nil)
        #expect(machine.acknowledgedBytes == 60)
    }

    @Test func credentialsAreRefreshedOnce() {
        var machine = ResumableUploadMachine(
            intent: UploadIntent(size: 5, base: .absent),
            creationFields: HTTPFields(),
            support: .version(.v9)
        )
        _ = machine.start()
        let refused = ResumableUploadMachine.Response(status: 403, fields: HTTPFields(), url: "http://h/k")
        #expect(machine.handle(.response(refused)) == .wait(TransferPause(.authentication)))
        _ = machine.handle(.waited)
        #expect(machine.handle(.response(refused)) == .failed(.forbidden))
    }
}
