// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Testing

@testable import FuseBridge

@Suite struct LoopThreadsTests {
    /// The threads, and how many of them work on a request.
    private struct Scene: Hashable {
        var threads: LoopThreads
        var working = 0
        var hasEnded = false
    }

    private let enough = 2
    private let parkedLimit = 2
    private let limit = 5

    /// Everything that may happen next.
    private func successors(of scene: Scene) -> [Scene] {
        var result: [Scene] = []
        if scene.threads.receiving > 0, !scene.hasEnded {
            var next = scene
            next.working += 1
            let substitute = next.threads.took()
            result.append(next)
            if substitute == .new {
                next.threads.couldNotStart()
                result.append(next)
            }
        }
        if scene.threads.receiving > 0, scene.hasEnded {
            var next = scene
            next.threads.sawTheEnd()
            result.append(next)
        }
        if scene.working > 0 {
            var next = scene
            next.working -= 1
            _ = next.threads.answered()
            result.append(next)
            for isKnown in [true, false] {
                var next = scene
                let substitute = isKnown ? next.threads.waits() : next.threads.stands()
                if isKnown { next.working -= 1 }
                result.append(next)
                if substitute == .new {
                    next.threads.couldNotStart()
                    result.append(next)
                }
            }
        }
        if scene.threads.waiting > 0 {
            var next = scene
            next.working += 1
            next.threads.resumes()
            result.append(next)
        }
        if !scene.hasEnded {
            var next = scene
            next.hasEnded = true
            result.append(next)
        }
        return result
    }

    @Test func whateverHappensOneWaitsForTheNextRequestAndAllEnd() {
        var first = Scene(threads: LoopThreads(enough: enough, parkedLimit: parkedLimit, limit: limit))
        first.threads.begin()
        var seen: Set<Scene> = [first]
        var toDo = [first]
        var mostReceiving = 0
        while let scene = toDo.popLast() {
            let threads = scene.threads
            #expect(threads.receiving + threads.parked + scene.working + threads.waiting == threads.count, "\(scene)")
            #expect(threads.receiving >= 0 && threads.count <= limit && threads.parked <= parkedLimit, "\(scene)")
            // Nobody takes the next request only while enough work, or there are no others, or one could not start.
            if !scene.hasEnded, threads.receiving == 0 {
                #expect(scene.working + threads.waiting > 0, "\(scene)")
                #expect(scene.working >= enough || threads.parked == 0, "\(scene)")
            }
            let next = successors(of: scene)
            if next.isEmpty { #expect(threads.count == 0, "threads sleep for ever: \(scene)") }
            if scene.working == 0, threads.waiting == 0, !scene.hasEnded {
                mostReceiving = max(mostReceiving, threads.receiving)
            }
            for scene in next where seen.insert(scene).inserted { toDo.append(scene) }
        }
        #expect(seen.count > 50 && mostReceiving == enough, "\(seen.count) scenes, \(mostReceiving) receive")
    }

    @Test func thoseThatAreNotNeededSleepAndTheNextOneIsTakenFromThem() {
        var threads = LoopThreads(enough: 1, parkedLimit: 1, limit: 10)
        threads.begin()
        #expect(threads.took() == .none && threads.waits() == .new)
        #expect(threads.took() == .none && threads.waits() == .new)
        threads.resumes()
        #expect(threads.answered() == .park)
        threads.resumes()
        #expect(threads.answered() == .end)
        #expect(threads.took() == .none)
        #expect(threads.stands() == .parked && threads.stands() == .none)
        #expect(threads.count == 2 && threads.receiving == 1 && threads.parked == 0)
    }

    @Test func soManyWorkBeforeAnotherIsCalled() {
        var threads = LoopThreads(enough: 3, parkedLimit: 1, limit: 10)
        threads.begin()
        #expect(threads.took() == .new && threads.took() == .new && threads.took() == .none)
        // The first that has answered takes the next request.
        #expect(threads.answered() == .receive && threads.took() == .none)
        // Of three one waits, and three may work again.
        #expect(threads.waits() == .new && threads.took() == .none)
        threads.resumes()
        #expect(threads.answered() == .receive && threads.receiving == 1)
    }
}
