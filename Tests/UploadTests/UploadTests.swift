// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Flusher
import ObjectStore
import Platform
import Stores
import Synchronization
import TestSupport
import Testing

@Suite struct UploadTests {
    private func resumable(_ context: UploadContext, _ journal: UploadJournal) -> UploadResult {
        var driver = ResumableDriver(context, resuming: journal.resumable(length: context.content.size))
        return driver.run()
    }

    private func multipart(_ context: UploadContext, _ journal: UploadJournal) -> UploadResult {
        var driver = MultipartDriver(context, resuming: journal.multipart, partSize: 5 << 20)
        return driver.run()
    }

    private func isCommitted(_ result: UploadResult?) -> Bool {
        if case .committed = result { true } else { false }
    }

    private func offsets(_ count: Int, below size: Int, seed: UInt64) -> [Int64] {
        var word = seed
        return (0..<count).map { _ in
            word = word &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int64(word >> 33) % Int64(size)
        }
    }

    @Test func aResumableUploadIsDiscoveredAndSendsEveryByteOnce() throws {
        let scene = try UploadScene(size: 9 << 20, seed: 1)
        let journal = UploadJournal()
        let result = try scene.upload(journal, resumable)
        #expect(isCommitted(result), "\(String(describing: result))")
        #expect(scene.storedContent == scene.content)
        #expect(scene.receivedBytes == 9 << 20)
        #expect(scene.store.capabilities.resumableUpload == .version(9))
        #expect(try scene.store.status(of: scene.key, cancellation: nil).metadata.contentType == "text/x-test")
    }

    @Test(arguments: [CutStyle.reset, .finish])
    func cutsCostNoByteThatTheServerRead(style: CutStyle) throws {
        let scene = try UploadScene(size: 24 << 20, seed: 2)
        let journal = UploadJournal()
        let lost = try scene.begin(journal, resumable)
        scene.proxy.plan.cut(atTotals: offsets(25, below: 23 << 20, seed: 3), of: .request, style)
        let result = try scene.upload(journal, resumable)
        #expect(isCommitted(result), "\(String(describing: result))")
        #expect(scene.storedContent == scene.content)
        #expect(scene.receivedBytes(atLeast: 24 << 20 + lost) == 24 << 20 + lost)
        #expect(scene.proxy.plan.cutsDone >= 20)
    }

    @Test func attemptsThatAreGivenUpContinueAtTheByte() throws {
        let scene = try UploadScene(size: 16 << 20, seed: 11)
        let journal = UploadJournal()
        let lost = try scene.begin(journal, resumable)
        scene.proxy.plan.limit(upload: 24 << 20, download: nil, latency: 0)
        // No request gets farther than that. An attempt that is given up late may have begun another one by itself.
        scene.proxy.plan.add(
            FaultRule(.stall(.request, after: 4 << 20), for: RequestPattern(method: "PATCH"), times: nil)
        )
        var attempts = 0
        var result: UploadResult
        repeat {
            attempts += 1
            let flag = CancellationFlag()
            let context = try scene.context(journal, cancellation: flag)
            let isOver = try scene.cancel(flag, after: 2 << 20)
            result = resumable(context, journal)
            isOver.set()
        } while !isCommitted(result) && attempts < 100
        #expect(isCommitted(result), "\(result)")
        #expect(attempts > 1)
        #expect(scene.storedContent == scene.content)
        #expect(scene.receivedBytes(atLeast: 16 << 20 + lost) == 16 << 20 + lost)
    }

    @Test func aLostFinalAnswerIsLookedUpAndNotRepeated() throws {
        let scene = try UploadScene(size: 9 << 20, seed: 4)
        scene.proxy.plan.add(FaultRule(.dropResponse(.reset), for: RequestPattern(method: "PATCH")))
        let journal = UploadJournal()
        let result = try scene.upload(journal, resumable)
        #expect(isCommitted(result), "\(String(describing: result))")
        #expect(scene.storedContent == scene.content)
        #expect(scene.receivedBytes == 9 << 20)
    }

    @Test func everyLostAnswerIsSurvived() throws {
        let scene = try UploadScene(size: 9 << 20, seed: 4)
        for method in ["OPTIONS", "PUT", "HEAD", "PATCH"] {
            scene.proxy.plan.add(FaultRule(.dropResponse(.finish), for: RequestPattern(method: method), times: 2))
        }
        let journal = UploadJournal()
        let result = try scene.upload(journal, resumable)
        #expect(isCommitted(result), "\(String(describing: result))")
        #expect(scene.storedContent == scene.content)
        #expect(scene.receivedBytes == 9 << 20)
    }

    @Test func busyServersAreWaitedFor() throws {
        let scene = try UploadScene(size: 9 << 20, seed: 5)
        let busy = CannedResponse(status: 503, fields: ["Retry-After: 0"])
        for method in ["OPTIONS", "PUT", "PATCH"] {
            scene.proxy.plan.add(FaultRule(.respond(busy), for: RequestPattern(method: method), times: 2))
        }
        let result = try scene.upload(UploadJournal(), resumable)
        #expect(isCommitted(result), "\(String(describing: result))")
        #expect(scene.storedContent == scene.content)
    }

    @Test func foreignContentIsAConflictAndStays() throws {
        let scene = try UploadScene(size: 9 << 20, seed: 6)
        try Files.makeDirectories("\(scene.folder)/bucket/folder")
        try Files.writeAtomically("\(scene.folder)/bucket/folder/object", [1, 2, 3])
        for run in [resumable, multipart] {
            let result = try scene.upload(UploadJournal(), run)
            guard case .conflict(let found) = result else {
                Issue.record("\(String(describing: result))")
                continue
            }
            #expect(found?.size == 3)
            #expect(scene.storedContent == [1, 2, 3])
        }
    }

    @Test func multipartCutsCostAtMostThePartsInFlight() throws {
        let scene = try UploadScene(size: 42 << 20, seed: 7)
        scene.proxy.plan.cut(atTotals: offsets(6, below: 42 << 20, seed: 8), of: .request)
        let journal = UploadJournal()
        let result = try scene.upload(journal, multipart)
        #expect(isCommitted(result), "\(String(describing: result))")
        #expect(scene.storedContent == scene.content)
        #expect(scene.receivedBytes >= 42 << 20)
        #expect(scene.receivedBytes <= (42 + 6 * 5) << 20)
    }

    @Test func aLostCompletionIsRecognised() throws {
        let scene = try UploadScene(size: 12 << 20, seed: 9)
        let complete = RequestPattern(method: "POST", query: "uploadId")
        scene.proxy.plan.add(FaultRule(.dropResponse(.reset), for: complete))
        let result = try scene.upload(UploadJournal(), multipart)
        #expect(isCommitted(result), "\(String(describing: result))")
        #expect(scene.storedContent == scene.content)
        #expect(scene.receivedBytes < (12 << 20) + 4096)
    }
}
