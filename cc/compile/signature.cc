#include "cc/compile/signature.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/base/dtype_names.h"

namespace tf_disc {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::Tensor;

// Constant operands are axes and permutations; a longer one is a mistake of the
// pass that must not make keys of megabytes.
constexpr int64_t kMaxConstBytes = 4096;

// Integer inputs up to this many elements may say sizes; their values go to the
// compiler as hints.
constexpr int64_t kMaxSizeValues = 64;

absl::Status CheckIndices(absl::Span<const int32_t> indices, int64_t num_inputs,
                          absl::string_view attribute) {
  for (int32_t index : indices) {
    if (index < 0 || index >= num_inputs) {
      return absl::InvalidArgumentError(absl::StrCat(
          "attribute ", attribute, " names input ", index, " of ", num_inputs));
    }
  }
  return absl::OkStatus();
}

void AppendInt(int64_t value, std::string* key) {
  key->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendDims(const Tensor& tensor, std::string* key) {
  for (int d = 0; d < tensor.dims(); ++d) AppendInt(tensor.dim_size(d), key);
}

}  // namespace

const char* InputKindName(InputKind kind) {
  switch (kind) {
    case InputKind::kTensor:
      return "tensor";
    case InputKind::kWeight:
      return "weight";
    case InputKind::kConst:
      return "const";
    case InputKind::kResource:
      return "resource";
  }
  return "";
}

absl::StatusOr<SignatureRules> SignatureRules::Make(
    absl::Span<const DataType> types, absl::Span<const int32_t> const_operands,
    absl::Span<const int32_t> length_operands,
    absl::Span<const int32_t> weight_operands,
    absl::Span<const tensorflow::PartialTensorShape> input_shapes) {
  const int64_t n = static_cast<int64_t>(types.size());
  for (const auto& [indices, name] :
       {std::make_pair(const_operands, "const_operands"),
        std::make_pair(length_operands, "length_operands"),
        std::make_pair(weight_operands, "weight_operands")}) {
    const absl::Status status = CheckIndices(indices, n, name);
    if (!status.ok()) return status;
  }
  if (!input_shapes.empty() && static_cast<int64_t>(input_shapes.size()) != n) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute input_shapes has ", input_shapes.size(),
                     " shapes for ", n, " inputs"));
  }
  SignatureRules result;
  result.rules_.resize(types.size());
  for (int64_t i = 0; i < n; ++i) {
    Rule& rule = result.rules_[i];
    rule.dtype = types[i];
    if (types[i] == tensorflow::DT_RESOURCE) {
      // The recorded shape is the handle's, a scalar: no news of the variable.
      rule.kind = InputKind::kResource;
      continue;
    }
    if (input_shapes.empty() || input_shapes[i].unknown_rank()) continue;
    rule.known_rank = input_shapes[i].dims();
    for (int d = 0; d < rule.known_rank; ++d) {
      rule.known_dims.push_back(input_shapes[i].dim_size(d));
    }
  }
  for (int32_t i : weight_operands) {
    if (result.rules_[i].kind == InputKind::kTensor) {
      result.rules_[i].kind = InputKind::kWeight;
    }
  }
  for (int32_t i : length_operands) result.rules_[i].fixes_length = true;
  for (int32_t i : const_operands) result.rules_[i].kind = InputKind::kConst;
  for (int64_t i = 0; i < n; ++i) {
    const Rule& rule = result.rules_[i];
    const bool is_fixed =
        rule.fixes_length ||
        (rule.known_rank >= 0 &&
         std::find(rule.known_dims.begin(), rule.known_dims.end(), -1) ==
             rule.known_dims.end());
    if (rule.kind == InputKind::kTensor && !is_fixed) {
      result.variable_inputs_.push_back(static_cast<int>(i));
    }
  }
  return result;
}

absl::Status SignatureRules::Check(
    absl::Span<const Tensor* const> inputs) const {
  if (inputs.size() != rules_.size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it got ", inputs.size(), " inputs, expected ", rules_.size()));
  }
  for (size_t i = 0; i < rules_.size(); ++i) {
    const Rule& rule = rules_[i];
    const Tensor& input = *inputs[i];
    if (rule.kind != InputKind::kResource && input.dtype() != rule.dtype) {
      return absl::FailedPreconditionError(absl::StrCat(
          "input ", i, " is ", tensorflow::DataTypeString(input.dtype()),
          ", expected ", tensorflow::DataTypeString(rule.dtype)));
    }
    if (DtypeName(input.dtype()).empty() ||
        input.dtype() == tensorflow::DT_RESOURCE) {
      return absl::FailedPreconditionError(absl::StrCat(
          "input ", i, " is ", tensorflow::DataTypeString(input.dtype()),
          ", a type that kernels do not handle"));
    }
    if (rule.kind == InputKind::kConst &&
        static_cast<int64_t>(input.tensor_data().size()) > kMaxConstBytes) {
      return absl::FailedPreconditionError(absl::StrCat(
          "constant input ", i, " has more than ", kMaxConstBytes, " bytes"));
    }
    if (rule.known_rank < 0) continue;
    if (input.dims() != rule.known_rank) {
      return absl::FailedPreconditionError(
          absl::StrCat("input ", i, " has rank ", input.dims(), ", expected ",
                       rule.known_rank));
    }
    for (int d = 0; d < rule.known_rank; ++d) {
      if (rule.known_dims[d] >= 0 && rule.known_dims[d] != input.dim_size(d)) {
        return absl::FailedPreconditionError(
            absl::StrCat("input ", i, " has a size in dim ", d,
                         " other than the expected ", rule.known_dims[d]));
      }
    }
  }
  return absl::OkStatus();
}

void SignatureRules::AppendKey(absl::Span<const Tensor* const> inputs,
                               std::string* key) const {
  for (size_t i = 0; i < rules_.size(); ++i) {
    const Rule& rule = rules_[i];
    const Tensor& input = *inputs[i];
    key->push_back(static_cast<char>(input.dims()));
    switch (rule.kind) {
      case InputKind::kTensor:
        if (rule.fixes_length) AppendDims(input, key);
        break;
      case InputKind::kWeight:
        AppendDims(input, key);
        break;
      case InputKind::kResource:
        AppendInt(input.dtype(), key);
        AppendDims(input, key);
        break;
      case InputKind::kConst: {
        AppendDims(input, key);
        const auto bytes = input.tensor_data();
        key->append(bytes.data(), bytes.size());
        break;
      }
    }
  }
}

int64_t SignatureRules::VariableElements(
    absl::Span<const Tensor* const> inputs) const {
  int64_t elements = 0;
  for (int i : variable_inputs_) elements += inputs[i]->NumElements();
  return elements;
}

std::vector<ClusterInput> SignatureRules::Describe(
    absl::Span<const Tensor* const> inputs) const {
  std::vector<ClusterInput> result(rules_.size());
  for (size_t i = 0; i < rules_.size(); ++i) {
    const Rule& rule = rules_[i];
    const Tensor& input = *inputs[i];
    ClusterInput& described = result[i];
    described.kind = rule.kind;
    described.dtype = input.dtype();
    for (int d = 0; d < input.dims(); ++d) {
      described.sizes.push_back(input.dim_size(d));
    }
    if (rule.kind != InputKind::kTensor || rule.fixes_length) {
      described.dims = described.sizes;
    } else if (rule.known_rank >= 0) {
      described.dims = rule.known_dims;
    } else {
      described.dims.assign(input.dims(), -1);
    }
    const bool may_say_sizes = rule.kind == InputKind::kTensor &&
                               (input.dims() <= 1 || rule.fixes_length) &&
                               input.NumElements() <= kMaxSizeValues &&
                               (input.dtype() == tensorflow::DT_INT32 ||
                                input.dtype() == tensorflow::DT_INT64);
    if (rule.kind == InputKind::kConst || may_say_sizes) {
      described.value = input;
    }
  }
  return result;
}

std::string DescribeSignature(absl::Span<const ClusterInput> inputs) {
  std::vector<std::string> texts;
  for (const ClusterInput& input : inputs) {
    std::string text = absl::StrCat(
        DtypeName(input.dtype), "[",
        absl::StrJoin(input.dims, ", ",
                      [](std::string* out, int64_t dim) {
                        absl::StrAppend(out, dim < 0 ? "?" : absl::StrCat(dim));
                      }),
        "]");
    if (input.kind == InputKind::kConst) {
      absl::StrAppend(&text, " = ", input.value.SummarizeValue(8));
    } else if (input.kind != InputKind::kTensor) {
      absl::StrAppend(&text, " ", InputKindName(input.kind));
    }
    texts.push_back(std::move(text));
  }
  return absl::StrJoin(texts, ", ");
}

}  // namespace tf_disc
