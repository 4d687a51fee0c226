// Which options say nothing where these options hold.
//
// Threads: pure functions. Invariants: an option is known by its name in option_table.h; what a
// role leaves without effect is refused as a flag, since somebody meant it for this process, and
// passed over in a deployment file, which several processes share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serve/options.h"

namespace bulkhead::serve {

// Who the option is for, as text, where this process is none of them: "--role prefill, decode".
std::optional<std::string> roles_instead(std::string_view name, const RoleOptions& options);

// Why the option is without effect; nothing where it has its effect.
std::optional<std::string> without_effect(std::string_view name, const ServeOptions& options);

}  // namespace bulkhead::serve
