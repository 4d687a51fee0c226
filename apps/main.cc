#include "cli.h"

int main(int argc, char** argv) { return bulkhead::apps::run_command_line(argc, argv); }
