// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// An S3 error document.
package struct S3Error: Error, Hashable, Sendable {
    /// The code as text: clients meet codes no table has.
    package var code: String
    package var message: String
    package var resource: String?
    package var requestID: String?
    /// Elements beyond the common ones, such as `Region` or `ActualObjectSize`, in order.
    package var details: [XMLElement]

    package init(code: String, message: String, resource: String? = nil, details: [XMLElement] = []) {
        self.code = code
        self.message = message
        self.resource = resource
        self.details = details
    }

    /// A server's error; `message` is the code's own unless given.
    package init(_ code: S3ErrorCode, _ message: String? = nil, resource: String? = nil) {
        self.init(code: code.rawValue, message: message ?? code.message, resource: resource)
    }

    package var known: S3ErrorCode? { S3ErrorCode(rawValue: code) }

    /// The HTTP status for it; 400 for an unknown code.
    package var status: Int { known?.status ?? 400 }

    /// The text of a detail, nil when it is absent.
    package func detail(_ name: String) -> String? { details.first { $0.name == name }?.text }

    /// Reads a document; nil when its root is not `Error`.
    package init?(_ root: XMLElement) {
        guard root.name == "Error" else { return nil }
        let common: Set<String> = ["Code", "Message", "Resource", "RequestId"]
        code = root["Code"] ?? ""
        message = root["Message"] ?? ""
        resource = root["Resource"]
        requestID = root["RequestId"]
        details = root.children.filter { !common.contains($0.name) }
    }

    /// The document.
    package var xml: [UInt8] {
        var writer = XMLWriter()
        writer.element("Error") { writer in
            writer.text("Code", code)
            writer.text("Message", message)
            if let resource { writer.text("Resource", resource) }
            if let requestID { writer.text("RequestId", requestID) }
            for detail in details { writer.text(detail.name, detail.text) }
        }
        return writer.bytes
    }
}
