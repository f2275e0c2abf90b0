// How the pass comes to be called by Grappler.
#ifndef TF_DISC_CC_GRAPPLER_REGISTRATION_H_
#define TF_DISC_CC_GRAPPLER_REGISTRATION_H_

#include <string>

namespace tf_disc {

// The name of the optimizer in Grappler's registries.
constexpr char kOptimizerName[] = "tf_disc";

enum class Registration {
  // The CPU's plugin optimizer: Grappler calls it for every graph.
  kPlugin,
  // Another plugin holds that place (one a device type; a second one would end
  // the process). The pass is a custom optimizer: Grappler calls it where
  // kOptimizerName is among rewrite_options.custom_optimizers, which Python
  // must see to.
  kCustom,
  // A second copy of this library was loaded; the first one's pass runs.
  kDuplicate,
};

// Done when the library is loaded.
Registration CurrentRegistration();

// "plugin", "custom" or "duplicate".
std::string RegistrationName();

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_REGISTRATION_H_
