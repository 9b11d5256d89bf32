/* SPDX-License-Identifier: MIT */
#include "npu/dsp/qemu/divide.c"
