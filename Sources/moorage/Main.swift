// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CommandLineTool
internal import Glibc

@main
struct Main {
    static func main() {
        exit(CommandLineTool.main(CommandLine.arguments))
    }
}
