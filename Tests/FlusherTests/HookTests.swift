// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Configuration
import Testing

@testable import Flusher

@Suite struct HookTests {
    @Test func noSecretOfOursReachesAProgram() {
        let ours = [
            "PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t", "HOME": "/h", "http_proxy": "u:p@h",
        ]
        let hook = Hook.attention(volume: "v", remote: "s3://b", path: "a b", reason: "why")
        #expect(
            hook.environment(of: ours) == [
                "PATH": "/bin", "HOME": "/h", "MOORAGE_EVENT": "attention", "MOORAGE_VOLUME": "v",
                "MOORAGE_REMOTE": "s3://b", "MOORAGE_PATH": "a b", "MOORAGE_REASON": "why",
            ]
        )
    }

    @Test func answersAreTheDocumentedOnesAndNothingElse() {
        let now = Timestamp(seconds: 1_000_000)
        func answer(_ status: Int32, _ output: String) -> StartAnswer? {
            StartAnswer(status: status, output: output, now: now)
        }
        func wait(_ seconds: Double) -> StartAnswer { .change([.notBefore(now.advanced(bySeconds: seconds))]) }
        #expect(answer(0, "whatever") == .start)
        #expect(answer(10, "90\n") == wait(90))
        #expect(answer(10, "2h until the lecture is over\n") == wait(7200))
        #expect(answer(10, "9999d") == wait(StartAnswer.longest))
        #expect(answer(10, "not_before=+1h") == wait(3600))
        #expect(
            answer(10, "priority = 5\r\nrate-limit=1M\ndiscretionary=no\ndeadline=\n")
                == .change([
                    .priority(5), .setting(.rateLimit, "1M"), .setting(.discretionary, "no"), .deadline(nil),
                ])
        )
        #expect(answer(11, "too large\nmore") == .cancel(reason: "before_start: too large"))
        #expect(answer(11, "") == .cancel(reason: "before_start cancelled it"))
        let many = String(repeating: "priority=1\n", count: 33)
        for output in ["", "\n", "soon", "-5", "0", "priority=101", "priority=1\nunknown=2", "endpoint=http://x", many]
        {
            #expect(answer(10, output) == nil, "\(output)")
        }
        for status in [1, 127] as [Int32] { #expect(answer(status, "") == nil) }
    }
}

@Suite struct NoticesTests {
    @Test func whatComesTogetherIsToldTogetherAndThenNothingForAWhile() throws {
        var notices = Notices()
        #expect(notices.dueAt == nil)
        for number in 0..<5 {
            notices.note(.upload, path: "f\(number)", remote: "s3://b", at: 100 + Double(number) / 10)
        }
        notices.note(.conflict, path: "<b>&", remote: "s3://b", at: 101)
        var message = notices.take(at: 101)
        #expect(message == nil && notices.dueAt == 102)
        message = notices.take(at: 102)
        #expect(message?.summary == "5 uploads need attention, 1 conflict")
        #expect(message?.body == "f0\nf1\nf2\nand 3 more\nSee: moorage uploads")
        message = notices.take(at: 103)
        #expect(message == nil)
        notices.note(.conflict, path: "<b>&", remote: "s3://b", at: 110)
        #expect(notices.dueAt == 102 + Notices.pause)
        message = notices.take(at: 402)
        #expect(message?.summary == "1 conflict" && message?.body == "&lt;b&gt;&amp;\nSee: moorage uploads")
    }
}

@Suite struct MetricsTextTests {
    @Test func textIsEscapedAsTheFormatAsks() {
        var text = MetricsText()
        text.add("a_total", .counter, "One\\two\nthree", [([("l", "q\"b\\n\n")], 1), ([], 0.5)])
        text.add("none", .gauge, "Nothing", [])
        #expect(
            text.text == "# HELP moorage_a_total One\\\\two\\nthree\n# TYPE moorage_a_total counter\n"
                + "moorage_a_total{l=\"q\\\"b\\\\n\\n\"} 1\nmoorage_a_total 0.5\n"
        )
    }
}
