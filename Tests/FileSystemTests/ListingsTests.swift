// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Platform
import Testing

@testable import FileSystem

@Suite struct ListingsTests {
    /// For how long a listing that took `cost` seconds is believed, in seconds: one of `times`.
    private func lifetime(cost: Double, age: Double, among times: [Double]) -> Double? {
        times.last { time in
            let listings = Listings()
            listings.note(ObjectKey("folder"), at: monotonicSeconds() - time, cost: cost)
            return listings.isFresh(ObjectKey("folder"), age: age)
        }
    }

    @Test func whatIsExpensiveToListIsBelievedLongerButNotForLong() {
        let times = [1.0, 5, 15, 30, 50, 60, 75, 120, 150, 180, 250]
        #expect(lifetime(cost: 0.01, age: 10, among: times) == 5)
        #expect(lifetime(cost: 2, age: 10, among: times) == 30)
        #expect(lifetime(cost: 8, age: 10, among: times) == 60)
        // A minute from its end on, else it would never be believed.
        #expect(lifetime(cost: 70, age: 10, among: times) == 120)
        // What was configured is what counts.
        #expect(lifetime(cost: 8, age: 200, among: times) == 180)
        #expect(lifetime(cost: 8, age: 0, among: times) == nil)
    }
}
