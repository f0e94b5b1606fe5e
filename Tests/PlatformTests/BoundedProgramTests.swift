// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Platform
import Testing

@Suite struct BoundedProgramTests {
    private func run(_ script: String, timeout: Double = 20) -> BoundedProgram.Outcome {
        BoundedProgram.run(["/bin/sh", "-c", script], environment: ["A": "b c"], timeout: timeout)
    }

    @Test func aProgramGetsItsWordsAndNothingOfOurEnvironment() {
        #expect(
            run("echo \"$A\"; env | grep -vc '^\\(A\\|PWD\\|SHLVL\\|_\\)='; exit 10") == .exited(10, output: "b c\n0\n")
        )
        #expect(
            BoundedProgram.run(["/bin/echo", "$A *"], environment: [:], timeout: 20) == .exited(0, output: "$A *\n")
        )
        #expect(run("kill -KILL $$") == .killed(signal: 9))
    }

    @Test func oneThatTakesTooLongIsKilledWithAllThatItStarted() {
        let start = monotonicSeconds()
        #expect(run("sleep 60 & sleep 60", timeout: 0.3) == .timedOut)
        #expect(monotonicSeconds() - start < 20)
        // What is left behind does not keep us, and does not live on.
        #expect(run("sleep 60 & exit 3") == .exited(3, output: ""))
    }

    @Test func muchOutputIsReadAndTheBeginningKept() {
        guard case .exited(0, let output) = run("head -c 1000000 /dev/zero | tr '\\0' x") else {
            return #expect(Bool(false))
        }
        #expect(output.utf8.count == 4096)
    }

    @Test func oneThatIsNotThereIsSaidToBe() {
        guard case .notStarted(let reason) = BoundedProgram.run(["/no/such"], environment: [:], timeout: 1) else {
            return #expect(Bool(false))
        }
        #expect(reason.contains("/no/such"))
    }
}
