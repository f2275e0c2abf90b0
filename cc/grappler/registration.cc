#include "cc/grappler/registration.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cc/grappler/pass.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"

namespace tf_disc {
namespace {

using tensorflow::RewriterConfig;
using tensorflow::grappler::CustomGraphOptimizerRegistry;
using tensorflow::grappler::PluginGraphOptimizerRegistry;

// `is_plugin`: Grappler's own remapper is off for the pass's sake.
class Optimizer : public tensorflow::grappler::CustomGraphOptimizer {
 public:
  explicit Optimizer(bool is_plugin) : is_plugin_(is_plugin) {}

  std::string name() const override { return kOptimizerName; }
  bool UsesFunctionLibrary() const override { return true; }

  absl::Status Init(const tensorflow::RewriterConfig_CustomGraphOptimizer*
                    /*config*/) override {
    return absl::OkStatus();
  }

  absl::Status Optimize(tensorflow::grappler::Cluster* cluster,
                        const tensorflow::grappler::GrapplerItem& item,
                        tensorflow::GraphDef* optimized_graph) override {
    PassConfig config;
    // A user who turned the remapper off does not get it through the back door.
    config.remap =
        is_plugin_ &&
        config_proto_.graph_options().rewrite_options().remapping() !=
            RewriterConfig::OFF;
    RunPass(item, cluster, config, optimized_graph);
    return absl::OkStatus();
  }

 private:
  const bool is_plugin_;
};

Registration Register() {
  // Asking makes the optimizer of the plugin that holds the place, if any.
  const std::vector<std::unique_ptr<tensorflow::grappler::CustomGraphOptimizer>>
      holders = PluginGraphOptimizerRegistry::CreateOptimizers({"CPU"});
  for (const auto& holder : holders) {
    if (holder->name() == kOptimizerName) return Registration::kDuplicate;
  }
  if (holders.empty()) {
    std::unordered_map<std::string, tensorflow::RewriterConfig_Toggle> toggles;
    toggles["remapping"] = RewriterConfig::OFF;
    tensorflow::grappler::ConfigList configs(/*disable_model_pruning=*/false,
                                             toggles);
    PluginGraphOptimizerRegistry::RegisterPluginOptimizerOrDie(
        [] { return new Optimizer(/*is_plugin=*/true); }, "CPU", configs);
    return Registration::kPlugin;
  }
  const std::vector<std::string> customs =
      CustomGraphOptimizerRegistry::GetRegisteredOptimizers();
  if (std::find(customs.begin(), customs.end(), kOptimizerName) !=
      customs.end()) {
    return Registration::kDuplicate;
  }
  CustomGraphOptimizerRegistry::RegisterOptimizerOrDie(
      [] { return new Optimizer(/*is_plugin=*/false); }, kOptimizerName);
  return Registration::kCustom;
}

const Registration registration = Register();

}  // namespace

Registration CurrentRegistration() { return registration; }

std::string RegistrationName() {
  switch (registration) {
    case Registration::kPlugin:
      return "plugin";
    case Registration::kCustom:
      return "custom";
    case Registration::kDuplicate:
      return "duplicate";
  }
  return "unknown";
}

}  // namespace tf_disc
