#include "cc/ops/npy_file.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cc/compile/little_endian.h"
#include "tensorflow/core/framework/types.h"

namespace tf_disc {
namespace {

absl::string_view NumpyType(tensorflow::DataType dtype) {
  switch (dtype) {
    case tensorflow::DT_FLOAT:
      return "<f4";
    case tensorflow::DT_DOUBLE:
      return "<f8";
    case tensorflow::DT_INT32:
      return "<i4";
    case tensorflow::DT_INT64:
      return "<i8";
    case tensorflow::DT_BOOL:
      return "|b1";
    case tensorflow::DT_INT8:
      return "|i1";
    case tensorflow::DT_UINT8:
      return "|u1";
    case tensorflow::DT_INT16:
      return "<i2";
    case tensorflow::DT_HALF:
      return "<f2";
    case tensorflow::DT_BFLOAT16:
      return "<u2";
    default:
      return "";
  }
}

}  // namespace

absl::StatusOr<std::string> EncodeNpy(const tensorflow::Tensor& tensor) {
  const absl::string_view type = NumpyType(tensor.dtype());
  if (type.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        tensorflow::DataTypeString(tensor.dtype()), " has no .npy form"));
  }
  std::string header = absl::StrCat("{'descr': '", type,
                                    "', 'fortran_order': False, 'shape': (");
  for (int d = 0; d < tensor.dims(); ++d) {
    absl::StrAppend(&header, tensor.dim_size(d), ",");
  }
  header += "), }";
  // Magic, version, length and header fill a multiple of 64 bytes.
  constexpr size_t kPrefixBytes = 10;
  while ((kPrefixBytes + header.size() + 1) % 64 != 0) header.push_back(' ');
  header.push_back('\n');
  std::string bytes("\x93NUMPY\x01\x00", 8);
  AppendLittleEndian<uint16_t>(static_cast<uint16_t>(header.size()), &bytes);
  bytes += header;
  const auto data = tensor.tensor_data();
  bytes.append(data.data(), data.size());
  return bytes;
}

}  // namespace tf_disc
