// Ours, in place of DLPack's header: the names that SGLang's headers and its norm take from it.
#pragma once

#include <cstdint>

enum DLDeviceType { kDLCUDA = 2, kDLCUDAHost = 3 };
enum DLDataTypeCode { kDLInt = 0U, kDLUInt = 1U, kDLFloat = 2U, kDLBfloat = 4U };

struct DLDevice {
  DLDeviceType device_type;
  int32_t device_id;
};

struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
