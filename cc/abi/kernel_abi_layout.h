// What the compiler that built the runtime made of kernel_abi.h.
#ifndef TF_DISC_CC_ABI_KERNEL_ABI_LAYOUT_H_
#define TF_DISC_CC_ABI_KERNEL_ABI_LAYOUT_H_

extern "C" {

// Lines "version V", "STRUCT size BYTES", "STRUCT.FIELD offset BYTES" and
// "CONSTANT value V". tests/compiler compares them with codegen/abi.py. Static
// storage.
const char* disc_abi_layout();

}  // extern "C"

#endif  // TF_DISC_CC_ABI_KERNEL_ABI_LAYOUT_H_
