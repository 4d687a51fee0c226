// The command line: names, defaults and help of every option.
//
// Threads: main thread. Invariant: an option exists because a command reads it; sizes, ranges and
// files are checked here, before any work starts.
#pragma once

namespace bulkhead::apps {

// Parses, runs the chosen command and returns its exit code.
int run_command_line(int argc, char** argv);

}  // namespace bulkhead::apps
