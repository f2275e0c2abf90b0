// The options in force in this process: an ordered map from name to text. The
// pass records them on each DiscLaunch node, so a traced function keeps the
// options that it was traced under. Any thread may call any of these.
#ifndef TF_DISC_CC_BASE_OPTIONS_H_
#define TF_DISC_CC_BASE_OPTIONS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tf_disc {

using OptionMap = std::map<std::string, std::string>;

// Sets one option for the process; a layer pushed later hides it.
void SetOption(absl::string_view name, absl::string_view value);

// A layer over what is in force (a context manager's entry and exit). Pop of
// an empty stack does nothing and returns false.
void PushOptions(OptionMap layer);
bool PopOptions();

// All options in force, the innermost layer winning.
OptionMap CurrentOptions();

// The value in force, or `fallback`.
std::string CurrentOption(absl::string_view name, absl::string_view fallback);

// `name=value` joined by `;`, sorted by name; `%`, `;` and `=` inside a name
// or a value are written `%25`, `%3B`, `%3D`.
std::string OptionsText(const OptionMap& options);

// The inverse. InvalidArgument names the pair that is not `name=value`.
absl::StatusOr<OptionMap> ParseOptions(absl::string_view text);

}  // namespace tf_disc

#endif  // TF_DISC_CC_BASE_OPTIONS_H_
