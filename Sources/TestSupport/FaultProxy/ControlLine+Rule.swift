// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

extension ControlLine {
    /// The rule that a `rule` line describes.
    func rule() throws(Refusal) -> FaultRule {
        let pattern = RequestPattern(
            method: text("method"),
            path: text("path"),
            query: text("query"),
            notQuery: text("not-query"),
            field: text("field")
        )
        let times = text("times") == "all" ? nil : Int(try number("times") ?? 1)
        return FaultRule(try action(), for: pattern, skip: Int(try number("skip") ?? 0), times: times)
    }

    private func action() throws(Refusal) -> FaultAction {
        switch text("action") {
        case "hold": return .hold
        case "hold-response": return .holdResponse
        case "delay": return .delay(milliseconds: Int(try required("ms")))
        case "detain":
            let milliseconds = try number("ms").map(Int.init)
            return .detain(milliseconds: milliseconds, text("how") == nil ? nil : try cutStyle())
        case "respond": return .respond(try response())
        case "replace-response": return .replaceResponse(try response())
        case "drop-response": return .dropResponse(try cutStyle())
        case "cut-request": return .cutRequest(after: try required("after"), try cutStyle())
        case "cut-response": return .cutResponse(after: try required("after"), try cutStyle())
        case "stall": return .stall(try direction(), after: try number("after") ?? 0)
        case "set-field": return .setField(text("name") ?? "ETag", text("value") ?? "")
        case "truncate": return .truncateResponse(after: try required("after"))
        case "corrupt": return .corruptResponse(at: try number("at") ?? 0)
        default: throw Refusal(reason: "unknown action \(text("action") ?? "")")
        }
    }

    private func response() throws(Refusal) -> CannedResponse {
        var response = CannedResponse(status: Int(try required("status")), body: text("body") ?? "")
        if let field = text("add") { response.fields = field.split(separator: "\n").map(String.init) }
        return response
    }
}
