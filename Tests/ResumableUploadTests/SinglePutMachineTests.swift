// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import ResumableUpload
import Testing

@Suite struct SinglePutMachineTests {
    private let tag = String(repeating: "a", count: 32)
    private var ours: ObjectVersion { ObjectVersion(entityTag: EntityTag(opaque: tag), size: 10) }
    private var old: ObjectVersion {
        ObjectVersion(entityTag: EntityTag(opaque: String(repeating: "b", count: 32)), size: 7)
    }
    private var foreign: ObjectVersion {
        ObjectVersion(entityTag: EntityTag(opaque: String(repeating: "c", count: 32)), size: 10)
    }

    private func machine(_ base: UploadIntent.Foundation) -> SinglePutMachine {
        SinglePutMachine(intent: UploadIntent(size: 10, base: base))
    }

    @Test func aStoredObjectIsDone() {
        var machine = machine(.absent)
        #expect(machine.start() == .put)
        #expect(machine.handle(.stored(ours)) == .done(ours))
    }

    @Test func aLostAnswerIsLookedUpBeforeAnythingIsRepeated() {
        var machine = machine(.absent)
        _ = machine.start()
        #expect(
            machine.handle(.failed(.unreachable, retryAfter: 2)) == .wait(TransferPause(.unreachable, retryAfter: 2))
        )
        #expect(machine.handle(.waited) == .verifyTarget)
        #expect(machine.handle(.target(ours, expectedTag: tag)) == .done(ours))
    }

    @Test func aLostRequestIsRepeated() {
        var machine = machine(.version(old))
        _ = machine.start()
        _ = machine.handle(.failed(.temporary, retryAfter: nil))
        _ = machine.handle(.waited)
        #expect(machine.handle(.target(old, expectedTag: tag)) == .put)
    }

    @Test func ourOwnLostSuccessSeenAsFailedPreconditionIsSuccess() {
        var machine = machine(.version(old))
        _ = machine.start()
        #expect(machine.handle(.failed(.preconditionFailed, retryAfter: nil)) == .verifyTarget)
        #expect(machine.handle(.target(ours, expectedTag: tag)) == .done(ours))
    }

    @Test func anythingElseAtTheTargetIsAConflict() {
        for found in [foreign, nil] {
            var machine = machine(.version(old))
            _ = machine.start()
            _ = machine.handle(.failed(.preconditionFailed, retryAfter: nil))
            #expect(machine.handle(.target(found, expectedTag: tag)) == .conflict(found))
        }
    }

    @Test func lastWriterWinsRepeatsOverForeignContent() {
        var machine = machine(.anything)
        _ = machine.start()
        _ = machine.handle(.failed(.unreachable, retryAfter: nil))
        _ = machine.handle(.waited)
        #expect(machine.handle(.target(foreign, expectedTag: tag)) == .put)
    }

    @Test func aServerThatContradictsItselfIsGivenUp() {
        var machine = machine(.version(old))
        var action = machine.start()
        for _ in 0..<20 {
            switch action {
            case .put: action = machine.handle(.failed(.preconditionFailed, retryAfter: nil))
            case .verifyTarget: action = machine.handle(.target(old, expectedTag: tag))
            default: break
            }
        }
        #expect(action == .failed(.preconditionFailed))
    }

    @Test(arguments: TransferFault.allCases)
    func everyFaultEndsOrWaits(fault: TransferFault) {
        var machine = machine(.absent)
        _ = machine.start()
        switch machine.handle(.failed(fault, retryAfter: nil)) {
        case .wait: #expect(fault.isTransient || fault == .protocolViolation || fault == .authentication)
        case .verifyTarget: #expect(fault == .preconditionFailed)
        case .failed(let reported): #expect(reported == fault && !fault.isTransient)
        default: Issue.record("\(fault)")
        }
    }

    @Test func resumingAsksTheTargetFirst() {
        var machine = SinglePutMachine(resuming: UploadIntent(size: 10, base: .absent))
        #expect(machine.start() == .verifyTarget)
        #expect(machine.handle(.failed(.notFound, retryAfter: nil)) == .put)
    }

    @Test func tagsThatAreNoDigestCountOnlyWithTheServersWord() {
        let opaque = ObjectVersion(entityTag: EntityTag(opaque: "opaque"), size: 10)
        let intent = UploadIntent(size: 10, base: .version(old))
        #expect(TargetVerdict(found: opaque, intent: intent, expectedTag: tag) == .foreign(opaque))
        #expect(TargetVerdict(found: opaque, intent: intent, expectedTag: tag, wasCompleted: true) == .ours(opaque))
        #expect(
            TargetVerdict(found: foreign, intent: intent, expectedTag: tag, wasCompleted: true) == .foreign(foreign)
        )
    }
}

@Suite struct UploadProtocolChoiceTests {
    @Test func smallContentIsPutAndLargeContentIsResumable() {
        let unknown = UploadProtocolChoice()
        #expect(unknown.candidates(size: 0) == [.put])
        #expect(unknown.candidates(size: (8 << 20) - 1) == [.put])
        #expect(unknown.candidates(size: 8 << 20) == [.ietfResumable, .s3Multipart, .put])
        #expect(UploadProtocolChoice(resumable: .none).candidates(size: 1 << 40) == [.s3Multipart])
        #expect(UploadProtocolChoice(multipart: false, resumable: .none).candidates(size: 1 << 40) == [.put])
        #expect(UploadProtocolChoice(demanded: .s3Multipart).candidates(size: 5) == [.s3Multipart])
    }
}
