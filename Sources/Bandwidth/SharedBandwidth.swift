// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc
internal import Platform

/// The bandwidth that all processes of an instance share: a rate and a ``TokenBucket`` for each direction, in a file that
/// they map.
///
/// The flusher sets the rates; everybody takes before sending or receiving. Nothing is leased and nothing is left behind:
/// a process that dies holds nothing, and without a flusher the last rates count.
package final class SharedBandwidth: @unchecked Sendable {
    private static let size = 4096
    /// The form of the file.
    private static let form: Int64 = 0x4D42_5731
    /// How often a number is tried to be changed that others change at the same time.
    private static let attempts = 1000

    /// Numbers that other processes change meanwhile: only touched by atomic operations.
    private let numbers: UnsafeMutablePointer<Int64>
    private let length: Int

    /// Maps the file at `path`, made for this user alone where there is none.
    package init(path: String) throws(SystemError) {
        let flags = O_RDWR | O_CREAT | moorage_O_CLOEXEC | moorage_O_NOFOLLOW
        let file = try FileDescriptor.open(path, flags, mode: 0o600)
        // A page that is not on the disk yet would end the process when it finds no room there (SIGBUS).
        let result = posix_fallocate(file.raw, 0, off_t(Self.size))
        guard result == 0 else { throw SystemError.make(result, "fallocate", path) }
        try Self.load(file)
        numbers = try Self.map(file.raw, MAP_SHARED)
        length = Self.size
        // So that the page is not given up and asked for anew. Where that is not allowed it may be.
        _ = mlock(numbers, Self.size)
        if moorage_atomic_load(numbers) != Self.form {
            for index in 1..<8 { moorage_atomic_store(numbers + index, 0) }
            moorage_atomic_store(numbers, Self.form)
        }
    }

    /// Has the kernel hold the file's page: one that the disk does not give would end the process when touched (SIGBUS).
    ///
    /// The file is begun anew then, which costs no more than what was taken just now.
    private static func load(_ file: borrowing FileDescriptor) throws(SystemError) {
        var page = [UInt8](repeating: 0, count: size)
        var failure: SystemError?
        page.withUnsafeMutableBytes { buffer in
            do throws(SystemError) { _ = try file.read(into: buffer, at: 0) } catch { failure = error }
        }
        guard failure != nil else { return }
        failure = nil
        page = [UInt8](repeating: 0, count: size)
        page.withUnsafeBytes { buffer in
            do throws(SystemError) { try file.write(buffer, at: 0) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// For this process alone.
    package init() throws(SystemError) {
        numbers = try Self.map(-1, MAP_PRIVATE | MAP_ANONYMOUS)
        length = Self.size
    }

    deinit {
        munmap(numbers, length)
    }

    private static func map(_ file: Int32, _ flags: Int32) throws(SystemError) -> UnsafeMutablePointer<Int64> {
        guard let start = mmap(nil, size, PROT_READ | PROT_WRITE, flags, file, 0), start != MAP_FAILED else {
            throw SystemError.last("mmap")
        }
        return start.bindMemory(to: Int64.self, capacity: size / MemoryLayout<Int64>.size)
    }

    // MARK: rates

    /// The most that may go in a direction, in bytes a second; nil: no limit.
    package func rate(_ direction: TrafficDirection) -> Int64? {
        let rate = moorage_atomic_load(numbers + Self.rateIndex(direction))
        return rate > 0 ? max(rate, TokenBucket.lowestRate) : nil
    }

    /// Sets it for all processes; whether it was another one.
    @discardableResult
    package func setRate(_ rate: Int64?, _ direction: TrafficDirection) -> Bool {
        let index = Self.rateIndex(direction)
        let wanted = rate ?? 0
        guard moorage_atomic_load(numbers + index) != wanted else { return false }
        moorage_atomic_store(numbers + index, wanted)
        return true
    }

    // MARK: tokens

    /// How long until a class may take something, in nanoseconds; 0: now.
    package func wait(_ direction: TrafficDirection, _ kind: TrafficClass) -> Int64 {
        guard rate(direction) != nil else { return 0 }
        let bucket = TokenBucket(earned: moorage_atomic_load(numbers + Self.bucketIndex(direction)))
        return bucket.wait(kind, now: Self.now())
    }

    /// How many bytes a class may take in one go: more than usual after a time in which nobody came to take any.
    package func piece(_ direction: TrafficDirection, _ kind: TrafficClass) -> Int64 {
        guard let rate = rate(direction) else { return .max }
        let bucket = TokenBucket(earned: moorage_atomic_load(numbers + Self.bucketIndex(direction)))
        return max(TokenBucket.quantum(rate: rate), bucket.available(kind, rate: rate, now: Self.now()) / 2)
    }

    /// Takes as many bytes if a class may take anything now; whether it did.
    package func take(_ bytes: Int64, _ direction: TrafficDirection, _ kind: TrafficClass) -> Bool {
        guard let rate = rate(direction) else { return true }
        return change(direction) { bucket in
            let now = Self.now()
            guard bucket.wait(kind, now: now) == 0 else { return false }
            bucket.take(bytes, rate: rate, now: now)
            return true
        }
    }

    /// Counts bytes that went already.
    package func charge(_ bytes: Int64, _ direction: TrafficDirection) {
        guard let rate = rate(direction), bytes > 0 else { return }
        _ = change(direction) { bucket in
            bucket.take(bytes, rate: rate, now: Self.now())
            return true
        }
    }

    /// Gives back bytes that were taken and did not go.
    package func giveBack(_ bytes: Int64, _ direction: TrafficDirection) {
        guard let rate = rate(direction), bytes > 0 else { return }
        _ = change(direction) { bucket in
            bucket.giveBack(bytes, rate: rate)
            return true
        }
    }

    private func change(_ direction: TrafficDirection, _ body: (inout TokenBucket) -> Bool) -> Bool {
        let number = numbers + Self.bucketIndex(direction)
        for _ in 0..<Self.attempts {
            let before = moorage_atomic_load(number)
            var bucket = TokenBucket(earned: before)
            guard body(&bucket) else { return false }
            if moorage_atomic_replace(number, before, bucket.earned) != 0 { return true }
        }
        return false
    }

    /// Nanoseconds of the clock that all processes of the machine share and that never jumps (CLOCK_MONOTONIC).
    package static func now() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    private static func rateIndex(_ direction: TrafficDirection) -> Int { 1 + 2 * direction.rawValue }
    private static func bucketIndex(_ direction: TrafficDirection) -> Int { 2 + 2 * direction.rawValue }
}
