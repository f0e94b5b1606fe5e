// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Bandwidth
import Base
import Glibc
import Platform
import Testing

@Suite struct TokenBucketTests {
    private let second: Int64 = 1_000_000_000

    /// How many bytes get through in a time when as much as possible is asked for every `step` nanoseconds.
    private func flow(
        _ bucket: inout TokenBucket,
        _ kind: TrafficClass = .interactive,
        rate: Int64,
        from start: Int64,
        for duration: Int64,
        step: Int64 = 1_000_000
    ) -> Int64 {
        var sum: Int64 = 0
        var now = start
        while now < start + duration {
            while bucket.wait(kind, now: now) == 0 {
                bucket.take(TokenBucket.quantum(rate: rate), rate: rate, now: now)
                sum += TokenBucket.quantum(rate: rate)
            }
            now += step
        }
        return sum
    }

    @Test(arguments: [1024, 50_000, 1 << 20, 40 << 20, 2_000_000_000] as [Int64])
    func theRateIsKeptOverTenSeconds(rate: Int64) {
        var bucket = TokenBucket()
        let start = 1000 * second
        let first = flow(&bucket, rate: rate, from: start, for: 10 * second)
        #expect(Double(first) <= Double(10 * rate) * 1.03 + 4096, "a full bucket at the beginning")
        #expect(Double(first) >= Double(10 * rate) * 0.97 - 4096)
        // No drift: an hour later it is still the same.
        let later = flow(&bucket, rate: rate, from: start + 10 * second, for: 3600 * second, step: 10_000_000)
        #expect(abs(Double(later) / Double(3600 * rate) - 1) < 0.002)
    }

    @Test func aPauseSavesUpNoMoreThanTheBurst() {
        var bucket = TokenBucket()
        _ = flow(&bucket, rate: 1 << 20, from: second, for: 5 * second)
        let after = flow(&bucket, rate: 1 << 20, from: 500 * second, for: second / 10)
        #expect(Double(after) <= Double(1 << 20) * 0.38)
    }

    @Test func aNewRateCountsAtOnce() {
        var bucket = TokenBucket()
        _ = flow(&bucket, rate: 10 << 20, from: second, for: 2 * second)
        let slow = flow(&bucket, rate: 1 << 20, from: 3 * second, for: 2 * second)
        #expect(Double(slow) < Double(2 << 20) * 1.05)
        let fast = flow(&bucket, rate: 10 << 20, from: 5 * second, for: 2 * second)
        #expect(Double(fast) > Double(20 << 20) * 0.95)
    }

    @Test func theMoreUrgentTakesAllWhileItWants() {
        var bucket = TokenBucket()
        var sums: [TrafficClass: Int64] = [:]
        let rate: Int64 = 1 << 20
        for tick in 0..<10_000 {
            let now = second + Int64(tick) * 1_000_000
            // The less urgent asks first, every time.
            for kind in TrafficClass.allCases where tick < 5000 || kind != .interactive {
                if bucket.wait(kind, now: now) == 0 {
                    bucket.take(TokenBucket.quantum(rate: rate), rate: rate, now: now)
                    sums[kind, default: 0] += TokenBucket.quantum(rate: rate)
                }
            }
        }
        // What the bucket held at the beginning goes to whoever asks.
        #expect(sums[.interactive, default: 0] > 5 * rate * 9 / 10)
        #expect(sums[.background, default: 0] > 5 * rate * 9 / 10)
        #expect(sums[.discretionary, default: 0] < rate / 3)
    }

    @Test func aClockThatStartsAnewOwesNothing() {
        // A file that outlives a restart of the machine, whose clock begins at nothing.
        let bucket = TokenBucket(earned: 900_000 * second)
        #expect(bucket.wait(.interactive, now: 5 * second) == 0)
        var owing = TokenBucket()
        owing.take(1 << 40, rate: 1 << 20, now: 100 * second)
        #expect(owing.wait(.interactive, now: 100 * second) == TokenBucket.longestDebt)
        #expect(owing.wait(.interactive, now: 160 * second) == 0)
    }

    @Test func processesShareOneBucket() throws {
        let path = "/tmp/moorage-bandwidth-\(getpid())-\(UInt32.random(in: 0 ... .max))"
        defer { unlink(path) }
        let flusher = try SharedBandwidth(path: path)
        let mount = try SharedBandwidth(path: path)
        #expect(mount.rate(.down) == nil && mount.take(1 << 40, .down, .background))
        #expect(flusher.setRate(1 << 20, .down))
        #expect(!flusher.setRate(1 << 20, .down))
        #expect(mount.rate(.down) == 1 << 20 && mount.rate(.up) == nil)
        mount.charge(10 << 20, .down)
        #expect(!flusher.take(1, .down, .interactive))
        #expect(flusher.wait(.down, .interactive) > 9 * second)
        mount.giveBack(10 << 20, .down)
        #expect(flusher.take(1, .down, .interactive))
        // One that comes later finds the rate of before.
        #expect(try SharedBandwidth(path: path).rate(.down) == 1 << 20)
        flusher.setRate(nil, .down)
        #expect(mount.rate(.down) == nil)
    }
}
