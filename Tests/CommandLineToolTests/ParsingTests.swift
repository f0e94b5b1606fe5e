// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Testing

@testable import CommandLineTool

@Suite struct ParsedArgumentsTests {
    private let command = CommandDefinition(
        name: "try",
        operands: "A [B]",
        operandCount: 1...2,
        flags: [
            FlagDefinition("json", nil, "a flag"), FlagDefinition("timeout", "SECONDS", "a value"),
            FlagDefinition("o", "OPTIONS", "short"), FlagDefinition("v", nil, "short flag"),
        ],
        summary: "for tests"
    ) { _ throws(CommandFailure) in 0 }

    private func failure(_ words: String...) -> CommandFailure? {
        do throws(CommandFailure) {
            _ = try ParsedArguments(words, for: command)
            return nil
        } catch {
            return error
        }
    }

    @Test func flagsAndOperandsMayMix() throws {
        let parsed = try ParsedArguments(
            ["--json", "one", "-vo", "a,b", "--timeout=5", "-oc", "two"],
            for: command
        )
        #expect(parsed.operands == ["one", "two"])
        #expect(parsed.has("json") && parsed.has("v"))
        #expect(parsed.values("o") == ["a,b", "c"])
        #expect(try parsed.seconds("timeout") == 5)
    }

    @Test func twoDashesEndTheFlags() throws {
        let parsed = try ParsedArguments(["--", "--json", "-v"], for: command)
        #expect(parsed.operands == ["--json", "-v"])
        #expect(!parsed.has("json"))
    }

    @Test func helpNeedsNoOperands() throws {
        #expect(try ParsedArguments(["--help"], for: command).has("help"))
        #expect(try ParsedArguments(["-h"], for: command).has("help"))
    }

    @Test(arguments: [
        ["one", "two", "three"], [], ["one", "--jsom"], ["one", "-x"], ["one", "--timeout"], ["one", "--json=yes"],
        ["one", "-o"], [""], ["one", ""],
    ])
    func wrongWordsAreWrongUsage(words: [String]) {
        let problem = #expect(throws: CommandFailure.self) { _ = try ParsedArguments(words, for: command) }
        #expect(problem?.status == 2)
    }

    @Test func mistypedFlagsAreGuessed() {
        #expect(failure("one", "--timeut", "1")?.message.contains("did you mean timeout?") == true)
        #expect(throws: CommandFailure.self) {
            _ = try ParsedArguments(["one", "--timeout", "soon"], for: command).seconds("timeout")
        }
    }

    @Test func everyCommandIsDescribedAndNamedOnce() {
        let names = CommandLineTool.commands.map(\.name)
        #expect(Set(names).count == names.count)
        for command in CommandLineTool.commands where !command.isInternal {
            #expect(CommandLineTool.overview().contains(command.summary))
            #expect(command.help().hasPrefix("usage: moorage \(command.name)"))
            #expect(ManualPage.text().contains(".SS \(command.name)\n"))
        }
    }
}

@Suite struct UploadIdentifierTests {
    @Test func idsAreToldFromPaths() {
        #expect(UploadIdentifier.isOne("0f3a9b12-17"))
        #expect(!UploadIdentifier.isOne("./0f3a9b12-17"))
        #expect(!UploadIdentifier.isOne("photo-17"))
        #expect(!UploadIdentifier.isOne("0f3a9b12"))
        #expect(!UploadIdentifier.isOne("0f3a9b12-"))
    }
}

@Suite struct MountHelperTests {
    @Test func wordsOfMountAreUnderstood() throws {
        #expect(try MountHelper.run(["s3://bucket", "/mnt", "-sfnv", "-t", "moorage", "-o", "rw,noauto"]) == 0)
    }

    @Test func helpAndVersionAreUnderstood() throws {
        for word in ["--help", "-h", "--version"] { #expect(try MountHelper.run([word]) == 0) }
    }

    @Test func wrongWordsHaveMountsStatus() {
        let problem = #expect(throws: CommandFailure.self) { _ = try MountHelper.run(["s3://bucket", "-f"]) }
        #expect(problem?.status == 1)
    }
}
