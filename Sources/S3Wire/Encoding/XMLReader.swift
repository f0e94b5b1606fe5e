// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CExpat

/// Reads documents of a bounded size into trees.
///
/// Document types are refused, and with them every entity of one's own: no
/// expansion, no external files.
package enum XMLReader {
    /// What a document may have at most.
    package struct Limits: Sendable {
        package var bytes: Int
        package var depth: Int
        package var elements: Int

        package init(bytes: Int = 8 << 20, depth: Int = 16, elements: Int = 150_000) {
            self.bytes = bytes
            self.depth = depth
            self.elements = elements
        }
    }

    /// Parses a whole document; spaces before it, which servers send to keep a connection alive, are skipped.
    package static func parse(_ document: [UInt8], limits: Limits = Limits()) throws(XMLProblem) -> XMLElement {
        guard document.count <= limits.bytes else { throw XMLProblem("more than \(limits.bytes) bytes of XML") }
        let content = document.drop { $0 == 0x20 || $0 == 0x09 || $0 == 0x0A || $0 == 0x0D }
        guard !content.isEmpty else { throw XMLProblem("an empty document") }
        guard let parser = XML_ParserCreate("UTF-8") else { throw XMLProblem("out of memory") }
        defer { XML_ParserFree(parser) }
        let builder = TreeBuilder(parser: parser, limits: limits)
        XML_SetUserData(parser, Unmanaged.passUnretained(builder).toOpaque())
        setHandlers(parser)
        let status = withExtendedLifetime(builder) {
            content.withUnsafeBytes { bytes in
                XML_Parse(parser, bytes.assumingMemoryBound(to: CChar.self).baseAddress, Int32(bytes.count), 1)
            }
        }
        if let problem = builder.problem { throw problem }
        guard status == XML_STATUS_OK, let root = builder.root else {
            let text = XML_ErrorString(XML_GetErrorCode(parser)).map { String(cString: $0) } ?? "malformed"
            throw XMLProblem("XML line \(XML_GetCurrentLineNumber(parser)): \(text)")
        }
        return root
    }

    private static func setHandlers(_ parser: XML_Parser) {
        XML_SetElementHandler(
            parser,
            { context, name, _ in
                guard let name else { return }
                TreeBuilder.of(context)?.open(name)
            },
            { context, _ in TreeBuilder.of(context)?.close() }
        )
        XML_SetCharacterDataHandler(parser) { context, text, count in
            guard let text else { return }
            TreeBuilder.of(context)?.append(UnsafeRawBufferPointer(start: text, count: Int(count)))
        }
        XML_SetStartDoctypeDeclHandler(parser) { context, _, _, _, _ in
            TreeBuilder.of(context)?.fail("a document type is not allowed")
        }
    }
}

/// Collects the elements as the parser reports them.
private final class TreeBuilder {
    private struct Open {
        var name: String
        /// Where its text begins in that of all open elements.
        var start: Int
        var children: [XMLElement] = []

        mutating func add(_ child: XMLElement) {
            // What an entry of a listing has; it need not grow step by step.
            if children.isEmpty { children.reserveCapacity(8) }
            children.append(child)
        }
    }

    private let parser: XML_Parser
    private let limits: XMLReader.Limits
    private var stack: [Open] = []
    /// The text of the open elements, one behind the other: it matters of those without children only.
    private var text: [UInt8] = []
    private var count = 0
    private(set) var root: XMLElement?
    private(set) var problem: XMLProblem?

    init(parser: XML_Parser, limits: XMLReader.Limits) {
        self.parser = parser
        self.limits = limits
    }

    static func of(_ context: UnsafeMutableRawPointer?) -> TreeBuilder? {
        context.map { Unmanaged<TreeBuilder>.fromOpaque($0).takeUnretainedValue() }
    }

    func open(_ qualified: UnsafePointer<CChar>) {
        count += 1
        if stack.count >= limits.depth { return fail("XML nested deeper than \(limits.depth)") }
        if count > limits.elements { return fail("more than \(limits.elements) XML elements") }
        stack.append(Open(name: Self.localName(qualified), start: text.count))
    }

    /// The name behind the last colon.
    private static func localName(_ qualified: UnsafePointer<CChar>) -> String {
        var (start, end) = (qualified, qualified)
        while end.pointee != 0 {
            if end.pointee == CChar(0x3A) { start = end + 1 }
            end += 1
        }
        return String(cString: start)
    }

    func append(_ bytes: UnsafeRawBufferPointer) {
        if !stack.isEmpty { text.append(contentsOf: bytes) }
    }

    func close() {
        // After a stop the parser still reports the end of the element it was in.
        guard problem == nil, let last = stack.popLast() else { return }
        let own = last.children.isEmpty ? String(decoding: text[last.start...], as: UTF8.self) : ""
        text.removeLast(text.count - last.start)
        let element = XMLElement(name: last.name, text: own, children: last.children)
        if stack.isEmpty { root = element } else { stack[stack.count - 1].add(element) }
    }

    func fail(_ reason: String) {
        if problem == nil { problem = XMLProblem(reason) }
        XML_StopParser(parser, 0)
    }
}
